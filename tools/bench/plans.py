"""What plans cost on a cloud whose databases and Placement are real, in CPU seconds of the command alone.

Each plan is made on a snapshot of its own. Reading the cloud and the requests of its instances is measured
apart.
"""

from collections.abc import Callable, Mapping, Sequence
import tempfile
import time
from typing import Any

from scheduler import conf as configuration
from scheduler.operators.plan import balance, capacity, survive
from scheduler.operators.plan.command import quiet
from scheduler.operators.snapshot import snapshot
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from tools.rig import command, servers
from tools.worked_cases.plan_cloud import PlanCloud


def _survive(cloud: PlannedCloud, by: str | None) -> Any:
    return survive.survive(cloud, survive.domains_of(cloud.snapshot, by))


PLANS: Mapping[str, Callable[[PlannedCloud], Any]] = {
    "survive": lambda cloud: _survive(cloud, None),
    "survive --by aggregate:rack*": lambda cloud: _survive(cloud, "aggregate:rack*"),
    "capacity --all": lambda cloud: capacity.capacities(cloud, cloud.snapshot.stored.flavors),
    "balance": lambda cloud: balance.balance(cloud, balance.SPREAD, 20),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = command.Parser("tools/berth benchmark plans", __doc__)
    parser.share(hosts=2000)
    parser.add("--instances", 15_000, "instances on them at most; hosts use 90 %% of their memory")
    parser.add("--groups", 440, "server groups of six instances each")
    parser.add("--racks", 20, "racks that the hosts are in")
    parser.add("--plan", [*PLANS], "the plans to make", type=str, nargs="+")
    options = parser.parse_args(arguments)
    servers.stop_on_sigterm()
    with (
        tempfile.TemporaryDirectory() as directory,
        PlanCloud(
            directory,
            options.hosts,
            options.instances,
            used=0.9,
            groups=options.groups,
            racks=options.racks,
        ) as cloud,
        quiet(wanted=True),
    ):
        conf = configuration.load([f"--config-file={cloud.config_file}"])
        print(f"{options.hosts} hosts, {len(cloud.fleet.placed)} instances, {options.groups} server groups")
        print(f"{'plan':30} {'reading':>8} {'plan':>8}   seconds of CPU")
        for name in options.plan:
            begun = time.process_time()
            with snapshot.read(conf) as read:
                read.load_requests(range(len(read.instances)))
                known = time.process_time()
                PLANS[name](PlannedCloud(read))
            print(f"{name:30} {known - begun:8.1f} {time.process_time() - known:8.1f}", flush=True)
    return 0
