"""Swap a real nova-scheduler for Berth and back under load, step by step, and break a database under it."""

import argparse
from collections.abc import Callable
import math
import statistics
import time

from tools.rig import command
from tools.rig.building import Building
from tools.rig.software import Software
from tools.rig.swap_cloud import CUT_CELL, VHOST, SwapCloud
from tools.rig.tcp_proxy import Direction, Passage
from tools.scenarios.transcript import Transcript
from tools.side_by_side.command import FEWEST_HOSTS

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
    """The steps, in their order; load goes on for some seconds between two steps."""

    def __init__(self, cloud: SwapCloud, building: Building, transcript: Transcript, seconds: float) -> None:
        """Take a cloud in which instances are built."""
        self._cloud = cloud
        self._building = building
        self._show = transcript
        self._seconds = seconds

    def run(self) -> list[str]:
        """Swap there and back; return what is wrong in the end."""
        show = self._show
        show.step("1 nova-scheduler serves")
        self._cloud.nova.start()
        self._until_consumers(1)
        self._building.__enter__()
        self._go_on()
        show.run(QUEUES)
        show.step("2 Look before anything is changed")
        show.run(f"{STATUS} upgrade check")
        show.run(AUDIT)
        self._swap()
        self._watch()
        self._break_database()
        self._swap_back()
        return self._verdict()

    def _swap(self) -> None:
        show = self._show
        show.step("3 Start Berth next to nova-scheduler")
        self._start_berth()
        self._cloud.berth.wait_for_line("workers take requests")
        show.run(f"grep -E 'starts as|Filters:|cells and|take requests' {LOG}")
        show.run(QUEUES)
        self._go_on()
        show.run(f"grep 'Placed instance' {LOG} | tail -n 1")
        show.step("4 Let Berth take all requests, and stop nova-scheduler")
        self._stop_berth()
        self._cloud.prefer_berth()
        show.run(f"grep -A 3 '^.berth' {NOVA_CONF}")
        self._start_berth()
        self._go_on()
        show.command(f"kill -TERM {self._cloud.nova.pid}     # systemctl disable --now nova-scheduler")
        self._cloud.nova.stop()
        self._until_consumers(1)
        show.run(QUEUES)

    def _watch(self) -> None:
        self._show.step("5 Watch it")
        self._go_on()
        self._ready()
        counters = "^berth_(requests|claims)_total.* [1-9]"
        self._show.run(f"curl -s {self._cloud.monitoring}/metrics | grep -E '{counters}'")
        self._show.run(f"berth-explain --config-file {NOVA_CONF} list --max-width 118 | head -n 9")

    def _break_database(self) -> None:
        show, url = self._show, f"{self._cloud.monitoring}/readyz"
        show.step("6 Break a database under it")
        show.say(f"From now on nothing passes between the schedulers and the database of {CUT_CELL}.")
        before = len(self._building.answers)
        self._cloud.proxy.disturb(Passage.HOLD, *Direction)
        time.sleep(OUTAGE)
        show.run(f"grep -E ' (WARNING|ERROR) ' {LOG} | tail -n 4")
        show.run(f"grep 'Placed instance' {LOG} | tail -n 1")
        self._ready()
        show.run(f"curl -s {url} | python3 -m json.tool | grep -A 9 '{CUT_CELL}:age'")
        self._tell_times("while it is away", before)
        show.step("7 It comes back")
        before = len(self._building.answers)
        self._cloud.proxy.heal()
        self._go_on()
        show.run(f"grep -E 'again' {LOG} | tail -n 3")
        self._ready()
        self._tell_times("since it is back", before)

    def _swap_back(self) -> None:
        show = self._show
        show.step("8 Swap back")
        self._cloud.nova.start()
        show.command(
            "nova-scheduler --config-file /etc/nova/nova.conf &     # systemctl start nova-scheduler"
        )
        self._until_consumers(2)
        show.run(QUEUES)
        self._stop_berth()
        show.run(f"tail -n 4 {LOG}")
        self._go_on()
        show.run(QUEUES)

    def _verdict(self) -> list[str]:
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
        self._show.run(
            f"curl -s {self._cloud.monitoring}/readyz | python3 -m json.tool | grep status | sed -n 1p"
        )
        self._show.run(f"curl -s {self._cloud.monitoring}/metrics | grep '^berth_cell_age_seconds'")

    def _start_berth(self) -> None:
        self._cloud.berth.start()
        self._show.command(
            f"berth-scheduler --config-file {NOVA_CONF} &     # systemctl start berth-scheduler"
        )
        self._until_consumers(2)

    def _stop_berth(self) -> None:
        self._show.command(f"kill -TERM {self._cloud.berth.pid}     # systemctl stop berth-scheduler")
        self._show.say(f"Its exit status is {self._cloud.berth.stop()}.")
        self._until_consumers(1)

    def _go_on(self) -> None:
        wanted = len(self._building.answers) + 5
        time.sleep(self._seconds)
        self._await(lambda: len(self._building.answers) >= wanted, "No more instances are built")

    def _tell_times(self, when: str, first: int) -> None:
        answers = self._building.answers[first:]
        times = [answer.seconds for answer in answers]
        failed = sum(bool(answer.error) for answer in answers)
        self._show.say(
            f"Answers {when}: {len(answers)}, of which {failed} were errors; median"
            f" {statistics.median(times):.2f} s, longest {max(times):.2f} s."
        )

    def _until_consumers(self, number: int) -> None:
        self._await(lambda: self._cloud.consumers() == number, f"There are not {number} schedulers")

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
    software = Software(options.software)
    software.make()
    with command.running("swap") as directory:
        print(f"Starting a cloud of {options.hosts} hosts in two cells", flush=True)
        with SwapCloud(directory, software, options.hosts) as cloud:
            places = {
                str(cloud.config_file): NOVA_CONF,
                str(cloud.berth.log): LOG,
                str(directory): "/var/lib/nova",
            }
            transcript = Transcript(places, cloud.rabbit.environment)
            building = Building(
                cloud,
                cloud.bus,
                options.callers,
                options.pause,
                lambda cell: cloud.direct_database(cell.name),
                options.seed,
            )
            for stop in (building.stop, cloud.nova.kill, cloud.berth.stop):
                cloud.callback(stop)
            problems = Swap(cloud, building, transcript, options.seconds).run()
        if options.output:
            transcript.write(options.output)
    return 1 if problems else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/swap", __doc__)
    parser.share(hosts=100, callers=4, seconds=15.0, seed=1, output=None, software=command.SOFTWARE)
    parser.add("--pause", 1.0, "seconds between two requests of a caller, at most")
    options = parser.parse_args(arguments)
    parser.bound(options, hosts=(FEWEST_HOSTS, math.inf))
    return options
