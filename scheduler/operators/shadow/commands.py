"""berth-shadow run and report: decisions on copies of requests, and how they compare."""

import logging
from pathlib import Path
import signal
import threading
import time
from typing import Any

from scheduler.conf.log_output import set_up_logging
from scheduler.decisions.document import time_text
from scheduler.errors import BerthError, ConfigError
from scheduler.operators.app import AS_METRICS, ConfiguredCommand, latest, value, writing
from scheduler.operators.shadow import report
from scheduler.operators.shadow.copies import Copies
from scheduler.operators.shadow.decisions import ShadowManager
from scheduler.operators.shadow.shadow import ComparisonFile, Shadow
from scheduler.operators.shown.command import ShownCommand
from scheduler.operators.shown.files import write_metrics
from scheduler.operators.shown.shown import Shown
from scheduler.rpc.transport import TOPIC
from scheduler.stream.broker import broker_hosts

LOG = logging.getLogger(f"nova.{__name__}")

#: The argument that names where comparisons are.
DIRECTORY = value("--directory", "DIRECTORY", "directory of the comparisons (default: [DEFAULT]/state_path)")


class RunCommand(ConfiguredCommand):
    """Decide copies of nova-scheduler's requests until SIGTERM. Nothing is claimed and no reply is sent."""

    arguments = (DIRECTORY,)

    def take_action(self, parsed_args) -> int:
        conf: Any = self.conf
        directory = Path(parsed_args.directory or conf.state_path)
        try:
            set_up_logging(conf)
            file = ComparisonFile(directory)
            hosts = broker_hosts(conf)
            if not hosts:
                raise ConfigError("[DEFAULT]/transport_url: a shadow needs RabbitMQ")
            manager = ShadowManager.from_conf(conf)
            manager.start()
        except (BerthError, OSError) as error:
            LOG.error("The shadow cannot start: %s", error)
            return 1
        shadow = Shadow(manager, file)
        copies = Copies(hosts, conf.control_exchange, TOPIC)

        def stop(*_: object) -> None:
            copies.stop()
            shadow.stop()

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        if not manager.wait_until_ready(timeout := conf.berth.database_start_timeout):
            # every request would count as refused
            LOG.error("The shadow cannot start: %s", f"the API database was not read within {timeout:g} s")
            manager.stop_reading()
            return 1
        manager.wait_until_mirrored()
        receiver = threading.Thread(target=copies.run, args=(shadow.take,), name="copies")
        receiver.start()
        shadow.run()
        receiver.join()
        manager.stop_reading()
        file.close()
        return 0


class ShadowReportCommand(ShownCommand):
    """Report how the decisions of berth-shadow differ from those of nova-scheduler."""

    arguments = (DIRECTORY, latest("1d"), value("--textfile", "FILE", f"write the counts {AS_METRICS}"))

    def show(self, args) -> Shown:
        directory = Path(args.directory or self.conf.state_path)
        found = report.summarize(report.read(directory, args.since))
        if args.textfile:
            with writing(f"Cannot write {args.textfile}"):
                write_metrics(args.textfile, report.metrics(found))
        return report.shown(found, time_text(time.time()))
