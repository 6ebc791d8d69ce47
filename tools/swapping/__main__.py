"""The command line: swap there and back under load, step by step."""

import argparse
from collections.abc import Callable
import logging
from pathlib import Path
import statistics
import sys
import tempfile
import time

from tools.rig import servers
from tools.rig.cloud import ROOT
from tools.rig.software import Software
from tools.side_by_side.command import FEWEST_HOSTS
from tools.swapping.building import Building
from tools.swapping.cloud import CUT_CELL, VHOST, SwapCloud
from tools.swapping.transcript import Transcript

#: Seconds for which a database is away: readiness tells it after a minute.
OUTAGE = 75
#: Seconds that anything may take that is waited for.
PATIENCE = 180
NOVA_CONF = "/etc/nova/nova.conf"
LOG = "/var/log/nova/berth-scheduler.log"
STATUS = f"berth-status --config-file {NOVA_CONF}"
QUEUES = f"rabbitmqctl -q list_queues -p {VHOST} name consumers messages | grep -E 'name|^scheduler'"
AUDIT = f"{STATUS} audit"


class Swap:
    """The steps, in their order."""

    def __init__(self, cloud: SwapCloud, building: Building, transcript: Transcript, seconds: float) -> None:
        """Take a cloud in which instances are built.

        Args:
            cloud: Its schedulers are started and stopped.
            building: The load.
            transcript: Where the steps are told.
            seconds: For which the load goes on between two steps.
        """
        self._cloud = cloud
        self._building = building
        self._show = transcript
        self._seconds = seconds

    def begin(self) -> None:
        """nova-scheduler serves, as before any swap."""
        self._show.step("1 nova-scheduler serves")
        self._cloud.nova.start()
        self._await(lambda: self._cloud.consumers() == 1, "nova-scheduler does not start")
        self._building.__enter__()
        self._go_on()
        self._show.run(QUEUES)

    def check(self) -> None:
        """What Berth will need, and what is wrong already."""
        self._show.step("2 Look before anything is changed")
        self._show.run(f"{STATUS} upgrade check")
        self._show.run(AUDIT)

    def start_beside(self) -> None:
        """Both serve."""
        self._show.step("3 Start Berth beside nova-scheduler")
        self._start_berth(2)
        self._cloud.berth.wait_for_line("workers take requests")
        self._show.run(f"grep -E 'starts as|Filters:|cells and|take requests' {LOG}")
        self._show.run(QUEUES)
        self._go_on()
        self._show.run(f"grep 'Placed instance' {LOG} | tail -n 1")

    def take_over(self) -> None:
        """Berth gets all requests, then nova-scheduler is stopped."""
        self._show.step("4 Let Berth take all requests, and stop nova-scheduler")
        self._stop_berth()
        self._cloud.prefer_berth()
        self._show.run(f"grep -A 3 '^.berth' {NOVA_CONF}")
        self._start_berth(2)
        self._go_on()
        self._show.command(f"kill -TERM {self._cloud.nova.pid}     # systemctl disable --now nova-scheduler")
        self._cloud.nova.stop()
        self._await(lambda: self._cloud.consumers() == 1, "nova-scheduler does not stop")
        self._show.run(QUEUES)

    def watch(self) -> None:
        """What can be read while all is well."""
        self._show.step("5 Watch it")
        self._go_on()
        self._ready()
        counters = "^berth_(requests|claims)_total.* [1-9]"
        self._show.run(f"curl -s {self._cloud.monitoring}/metrics | grep -E '{counters}'")
        self._show.run(f"berth-explain --config-file {NOVA_CONF} list --max-width 118 | head -n 9")

    def break_database(self) -> None:
        """The database of a cell is cut off."""
        self._show.step("6 Break a database under it")
        self._show.say(f"From now on nothing passes between the schedulers and the database of {CUT_CELL}.")
        before = len(self._building.answers)
        self._cloud.cut_off()
        time.sleep(OUTAGE)
        self._show.run(f"grep -E ' (WARNING|ERROR) ' {LOG} | tail -n 4")
        self._show.run(f"grep 'Placed instance' {LOG} | tail -n 1")
        self._ready()
        url = f"{self._cloud.monitoring}/readyz"
        self._show.run(f"curl -s {url} | python3 -m json.tool | grep -A 9 '{CUT_CELL}:age'")
        self._tell_times("while it is away", before)

    def heal_database(self) -> None:
        """It answers again."""
        self._show.step("7 It comes back")
        before = len(self._building.answers)
        self._cloud.heal()
        self._go_on()
        self._show.run(f"grep -E 'again' {LOG} | tail -n 3")
        self._ready()
        self._tell_times("since it is back", before)

    def swap_back(self) -> None:
        """nova-scheduler serves again."""
        self._show.step("8 Swap back")
        self._cloud.nova.start()
        self._show.command(
            "nova-scheduler --config-file /etc/nova/nova.conf &     # systemctl start nova-scheduler"
        )
        self._await(lambda: self._cloud.consumers() == 2, "nova-scheduler does not start")
        self._show.run(QUEUES)
        self._stop_berth()
        self._show.run(f"tail -n 4 {LOG}")
        self._go_on()
        self._show.run(QUEUES)

    def verdict(self) -> list[str]:
        """Stop the load and compare; what is wrong."""
        self._show.step("9 What became of all requests")
        self._building.stop()
        self._show.run(AUDIT)
        problems = self._building.problems()
        by_berth = self._cloud.berth.log.read_text().count("Placed instance")
        answers = self._building.answers
        placed = sum(not each.error for each in answers)
        self._show.say(
            f"{len(answers)} instances were asked for and {placed} got a host, {by_berth} of them"
            f" by Berth and the others by nova-scheduler. Compared with Placement, {len(problems)} are lost,"
            " doubled or wrong."
        )
        for line in problems:
            self._show.say(line)
        return problems

    def _ready(self) -> None:
        """Show the state as a whole, and what is said of the cells."""
        self._show.run(f"curl -s {self._cloud.monitoring}/readyz | python3 -m json.tool | grep -m 1 status")
        self._show.run(f"curl -s {self._cloud.monitoring}/metrics | grep '^berth_cell_age_seconds'")

    def _start_berth(self, consumers: int) -> None:
        self._cloud.berth.start()
        self._show.command(
            f"berth-scheduler --config-file {NOVA_CONF} &     # systemctl start berth-scheduler"
        )
        self._await(lambda: self._cloud.consumers() == consumers, "Berth does not start")

    def _stop_berth(self) -> None:
        self._show.command(f"kill -TERM {self._cloud.berth.pid}     # systemctl stop berth-scheduler")
        status = self._cloud.berth.stop()
        self._show.say(f"Its exit status is {status}.")
        self._await(lambda: self._cloud.consumers() == 1, "Berth does not stop")

    def _go_on(self) -> None:
        wanted = len(self._building.answers) + 5
        time.sleep(self._seconds)
        self._await(lambda: len(self._building.answers) >= wanted, "No more instances are built")

    def _tell_times(self, when: str, first: int) -> None:
        answers = self._building.answers[first:]
        times = [answer.ended - answer.started for answer in answers]
        failed = sum(bool(answer.error) for answer in answers)
        self._show.say(
            f"Answers {when}: {len(answers)}, of which {failed} were errors; median"
            f" {statistics.median(times):.2f} s, longest {max(times):.2f} s."
        )

    @staticmethod
    def _await(condition: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            if time.monotonic() > deadline:
                raise RuntimeError(complaint)
            time.sleep(0.2)


def main(arguments: list[str] | None = None) -> int:
    """Run all steps; return 1 if a request was lost or an answer is not true."""
    options = _parse(arguments)
    logging.basicConfig(level=logging.ERROR)
    servers.stop_on_sigterm()
    software = Software(options.software)
    software.make()
    with tempfile.TemporaryDirectory(prefix="berth-swap-") as name:
        directory = Path(name)
        print(f"Starting a cloud of {options.hosts} hosts in two cells", flush=True)
        with SwapCloud(directory, software, options.hosts) as cloud:
            places = {str(cloud.config_file): NOVA_CONF, str(cloud.berth.log): LOG, name: "/var/lib/nova"}
            transcript = Transcript(places, cloud.rabbit.environment)
            building = Building(
                cloud,
                cloud.bus,
                options.callers,
                options.pause,
                lambda cell: cloud.direct_database(cell.name),
            )
            swap = Swap(cloud, building, transcript, options.seconds)
            cloud.callback(building.stop)
            cloud.callback(cloud.nova.kill)
            cloud.callback(cloud.berth.stop)
            for step in (
                swap.begin,
                swap.check,
                swap.start_beside,
                swap.take_over,
                swap.watch,
                swap.break_database,
                swap.heal_database,
                swap.swap_back,
            ):
                step()
            problems = swap.verdict()
        if options.transcript:
            transcript.write(options.transcript)
    return 1 if problems else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/swap", description=__doc__)
    add = parser.add_argument
    add("--hosts", type=int, default=100, help="compute hosts in two cells (default: %(default)s)")
    add("--callers", type=int, default=4, help="callers at the same time (default: %(default)s)")
    add(
        "--pause",
        type=float,
        default=1.0,
        help="seconds between two requests of a caller, at most (default: 1)",
    )
    add("--seconds", type=float, default=15, help="of building between two steps (default: %(default)s)")
    add("--transcript", type=Path, help="file to write what is printed to")
    add("--software", type=Path, default=ROOT / ".venv" / "side-by-side", help="virtual environment to use")
    options = parser.parse_args(arguments)
    if options.hosts < FEWEST_HOSTS:
        parser.error(f"--hosts: at least {FEWEST_HOSTS}")
    return options


if __name__ == "__main__":
    sys.exit(main())
