"""Schedulers and routers: in processes of their own, a real nova-scheduler, and in this process."""

from collections.abc import Callable, Mapping, Sequence
import contextlib
import os
from pathlib import Path
import threading
from typing import Any

import oslo_messaging as messaging

from conductor_client.bus import Bus
from scheduler.cmd import scheduler_parts
from scheduler.manager import SchedulerManager
from scheduler.parts import Outside, put_together
from scheduler.router.service import RouterService
from scheduler.rpc import notifications, scheduler_endpoint
from scheduler.rpc.context import RequestContext
from scheduler.rpc.transport import rpc_transport
from tools.rig import memory_bus
from tools.rig.memory_bus import IN_MEMORY
from tools.rig.service import START_TIMEOUT, ServiceProcess, command_of, environment_of_berth

#: Seconds in which a scheduler in this process ends.
STOP_TIMEOUT = 10


class SchedulerProcess(ServiceProcess):
    """A scheduler in processes of its own, of either kind."""

    def wait_until_ready(self, timeout: float = START_TIMEOUT, times: int = 1) -> None:
        """Wait until it has said so many times that it takes requests; raises as ``wait_until``."""
        self.wait_for_line("The daemon takes requests", timeout, times)

    def wait_until_it_answers(
        self, bus: Bus, timeout: float = START_TIMEOUT, host: str | None = None
    ) -> None:
        """Wait until a scheduler on the bus answers a ping: that of a ``[DEFAULT]/host``, or any.

        Raises:
            RuntimeError: It has ended, or the time is over; the text has the end of the log.
        """
        client = bus.client("scheduler", "1.1")
        client = client.prepare(server=host, namespace="baseapi", version="1.1", timeout=1)

        def answers() -> bool:
            with contextlib.suppress(messaging.MessagingTimeout):
                client.call(RequestContext(user_id="u", project_id="p"), "ping", arg=1)
                return True
            return False

        self.wait_until(answers, "The scheduler does not answer", timeout)


class BerthSchedulerProcess(SchedulerProcess):
    """A ``berth-scheduler``."""

    module = "scheduler.cmd.scheduler"

    def __init__(self, config_file: Path, log: Path, environment: Mapping[str, str] | None = None) -> None:
        """Describe a scheduler, which ``start`` runs with these variables besides those of this process."""
        command = command_of(self.module, config_file)
        super().__init__(command, log, {**environment_of_berth(), **(environment or {})})


class BerthRouterProcess(BerthSchedulerProcess):
    """A ``berth-router``."""

    module = "scheduler.cmd.router"


class NovaSchedulerProcess(SchedulerProcess):
    """A real ``nova-scheduler``, with its output in a file."""

    def __init__(self, program: str | Path, config_files: Sequence[Path], log: Path) -> None:
        command = [program, *(word for path in config_files for word in ("--config-file", path))]
        environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
        environment.pop("PYTHONPATH", None)
        super().__init__(command, log, environment)


class _Local(contextlib.ExitStack):
    """A daemon in this process: its services and connections are those of a process of its own."""

    def __init__(self, name: str, conf: Any, partition: str = "") -> None:
        """Describe a daemon; ``partition`` is "" for one of all hosts."""
        super().__init__()
        self.name = name
        self.conf = conf
        self.partition = partition

    def _serve(self, server: Any) -> None:
        server.start()
        self.callback(server.wait)
        self.callback(server.stop)

    def wait_until_ready(self) -> None:
        """Return at once: ``start`` waits."""

    def stop(self) -> None:
        """Stop it."""
        self.close()


class LocalScheduler(_Local):
    """A scheduler in this process, which counts what it decides.

    Attributes:
        manager: Decides, once it is started.
        causes: Why there is no host, by instance.
        on_decision: Is called with the record of each decision.
    """

    manager: SchedulerManager

    def __init__(self, name: str, conf: Any, partition: str = "") -> None:
        """Describe a scheduler, which has counted nothing yet."""
        super().__init__(name, conf, partition)
        self.placed = self.refused = 0
        self.causes: dict[str, str] = {}
        self.on_decision: Callable[[Any], object] = lambda _decision: None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start it, and wait until it serves."""
        parts = put_together(self.conf, Outside.from_conf(self.conf))
        announced = notifications.Notifications(())
        self.manager = SchedulerManager(self.conf, announced, parts, on_decision=self._note)
        self.manager.start()
        self.callback(self.manager.stop, lambda: STOP_TIMEOUT)
        self.manager.wait_until_ready(0)
        self.manager.catch_up()
        self._serve(self._server())

    def _server(self) -> Any:
        if self.conf.transport_url == IN_MEMORY:
            bus = rpc_transport(self.conf)
            self.callback(bus.cleanup)
            return memory_bus.serve(scheduler_endpoint.methods(self.conf, self.manager), bus, self.conf.host)
        server = scheduler_parts.make_server(self.conf, self.manager)
        self.callback(server.bus.close)
        return server

    def _note(self, trace: Any, error: Exception | None) -> None:
        self.on_decision(trace.decision)
        with self._lock:
            if error is None:
                self.placed += 1
            else:
                self.refused += 1
                self.causes |= dict.fromkeys(trace.decision.instances, trace.decision.summary or str(error))


class LocalRouter(_Local):
    """A router in this process."""

    def start(self) -> None:
        """Start it, and wait until it serves."""
        router = RouterService(self.conf)
        self.callback(router.server.bus.close)
        router.start()
        self.callback(router.stop, lambda: STOP_TIMEOUT)
        self._serve(router.server)
