"""Swap a real nova-scheduler for Berth and back under load, step by step, and break a database under it."""

import argparse
import math
import time

from tools.rig import command
from tools.rig.building import Building
from tools.rig.load import FEWEST_HOSTS
from tools.rig.software import Software
from tools.rig.swap_cloud import CUT_CELL, SwapCloud
from tools.rig.tcp_proxy import Direction, Passage
from tools.scenarios.swap_steps import LOG, NOVA_CONF, Steps
from tools.scenarios.transcript import Transcript

#: Seconds for which a database is away: readiness tells it after a minute.
OUTAGE = 75

STATUS = f"berth-status --config-file {NOVA_CONF}"
AUDIT = f"{STATUS} audit"


def look_first(steps: Steps) -> None:
    """Let nova-scheduler serve, and look whether Berth can."""
    cloud, building, show = steps.cloud, steps.building, steps.show
    show.step("1 nova-scheduler serves")
    cloud.nova.start()
    steps.until_served_by(nova=1)
    building.__enter__()
    steps.go_on()
    steps.show_queues()

    show.step("2 Look before anything is changed")
    show.run(f"{STATUS} upgrade check")
    show.say("Instances are built all the time, so Placement and the databases are not read at one moment.")
    show.run(AUDIT)


def swap(steps: Steps) -> None:
    """Start Berth, let it take all requests, stop nova-scheduler."""
    cloud, show = steps.cloud, steps.show
    show.step("3 Start Berth next to nova-scheduler")
    steps.start_berth()
    cloud.berth.wait_for_line("workers take requests")
    show.run(f"grep -E 'starts as|Filters:|cells and|take requests' {LOG}")
    steps.show_queues()
    steps.go_on()
    show.run(f"grep 'Placed instance' {LOG} | tail -n 1")

    show.step("4 Let Berth take all requests, and stop nova-scheduler")
    steps.stop_berth()
    cloud.prefer_berth()
    show.run(f"grep -A 3 '^.berth' {NOVA_CONF}")
    steps.start_berth()
    steps.go_on()
    show.command(f"kill -TERM {cloud.nova.pid}     # systemctl disable --now nova-scheduler")
    cloud.nova.stop()
    steps.until_served_by(berth=1)
    steps.show_queues()

    show.step("5 Watch it")
    steps.go_on()
    steps.show_health()
    counters = "^berth_(requests|claims)_total.* [1-9]"
    show.run(f"curl -s {cloud.monitoring}/metrics | grep -E '{counters}'")
    show.run(f"berth-explain --config-file {NOVA_CONF} list --max-width 118 | sed -n 1,9p")


def break_database(steps: Steps) -> None:
    """Cut a database off for a while."""
    cloud, building, show = steps.cloud, steps.building, steps.show
    show.step("6 Break a database under it")
    show.say(f"From now on nothing passes between the schedulers and the database of {CUT_CELL}.")
    before = len(building.answers)
    cloud.proxy.disturb(Passage.HOLD, *Direction)
    time.sleep(OUTAGE)
    show.run(f"grep -E ' (WARNING|ERROR) ' {LOG} | tail -n 4")
    show.run(f"grep 'Placed instance' {LOG} | tail -n 1")
    steps.show_health()
    show.run(f"curl -s {cloud.monitoring}/readyz | python3 -m json.tool | grep -A 9 '{CUT_CELL}:age'")
    steps.show_times(f"While the database of {CUT_CELL} is away", before)

    show.step("7 It comes back")
    before = len(building.answers)
    cloud.proxy.heal()
    steps.go_on()
    show.run(f"grep again {LOG} | tail -n 3")
    steps.show_health()
    steps.show_times("Since it is back", before)


def swap_back(steps: Steps) -> list[str]:
    """Let nova-scheduler serve again, and return what is wrong in the end."""
    cloud, building, show = steps.cloud, steps.building, steps.show
    show.step("8 Swap back")
    cloud.nova.start()
    show.command(f"nova-scheduler --config-file {NOVA_CONF} &     # systemctl start nova-scheduler")
    steps.until_served_by(nova=1, berth=1)
    steps.show_queues()
    steps.stop_berth()
    show.run(f"tail -n 4 {LOG}")
    steps.go_on()
    steps.show_queues()

    show.step("9 What became of all requests")
    building.stop()
    show.run(AUDIT)
    problems, answers = building.problems(), building.answers
    placed = sum(not each.error for each in answers)
    by_berth = cloud.berth.log.read_text().count("Placed instance")
    show.say(
        f"{len(answers)} instances were requested and {placed} got a host, {by_berth} of them from Berth, the"
        f" others from nova-scheduler. Compared with Placement, {len(problems)} are lost, doubled or wrong."
    )
    for line in problems:
        show.say(line)
    return problems


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
            transcript = Transcript(places, cloud.rabbit.variables)
            building = Building(
                cloud, cloud.bus, options.callers, options.pause, cloud.direct_database, options.seed
            )
            for stop in (building.stop, cloud.nova.kill, cloud.berth.stop):
                cloud.callback(stop)
            steps = Steps(cloud, building, transcript, options.seconds)
            look_first(steps)
            swap(steps)
            break_database(steps)
            problems = swap_back(steps)
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
