"""Break the members of a cluster under load: Galera behind HAProxies, RabbitMQ nodes, Placements, Keystone.

Each database server, each broker and each HAProxy has an address of its own on a bridge of this machine, so
that it can be cut off from the others. Two daemons serve, whose tokens expire all the time. Replies are
compared with Placement after each fault. Needs root.
"""

import argparse
import logging
from pathlib import Path
import shutil
import time

from tools.rig import cluster, command, debian, faults, keystone
from tools.rig.load import FEWEST_HOSTS
from tools.rig.rounds import CALLERS, Rounds
from tools.rig.service import ROOT
from tools.rig.software import Software
from tools.rig.world import Daemon, RunningWorld, World
from tools.scenarios import chaos

#: Seconds after healing in which requests must be served as before: the members agree again first.
RECOVERY_LIMIT = 60.0
SOFTWARE = ROOT / ".venv" / "cluster"
PATIENCE = 120  # seconds that requests wait during an outage
#: As kolla-ansible sets them, for services and callers alike.
QUEUES = """\
rabbit_quorum_queue = true
rabbit_transient_quorum_queue = true
heartbeat_timeout_threshold = 15
"""


def main(arguments: list[str] | None = None) -> int:
    """Run the faults, print a line for each and a table; return 1 if a promise was broken."""
    options = _parse(arguments)
    debian.need("mariadbd", "haproxy", "rabbitmq-server", "ip", "iptables", "rsync")
    with command.running("cluster", options.directory) as directory:
        logging.disable(logging.CRITICAL)  # of the callers' libraries, which report each lost connection
        system = None
        if options.rabbitmq == "trixie":
            archive = debian.bootstrap(options.machines, "trixie", "rabbitmq")
            system = debian.unpack(archive, directory / "rabbitmq-system")
        try:
            return _run(options, directory, system)
        finally:
            if system:
                shutil.rmtree(system, ignore_errors=True)


def _run(options: argparse.Namespace, directory: Path, system: Path | None) -> int:
    software = Software(options.software, keystone.REQUIREMENTS)
    software.make()
    started = time.monotonic()
    daemons = [f"controller{number}" for number in (1, 2)]
    world = World(
        options.hosts,
        databases="galera",
        placement="balanced",
        bus="cluster",
        options=f"[berth]\noutage_patience = {PATIENCE}\n",
        queues=QUEUES,
        daemons=tuple(Daemon(name, defaults=f"state_path = {directory / name}-state\n") for name in daemons),
        software=software,
        system=system,
    )
    for name in daemons:
        (directory / f"{name}-state").mkdir()
    with RunningWorld(world, directory) as cloud:
        print(f"A cluster, started in {time.monotonic() - started:.0f} s", flush=True)
        rounds = Rounds(cloud, options.callers, insist=True, recovery_limit=RECOVERY_LIMIT)
        outcomes, errors = [], cluster.errors(cloud)
        for outcome in chaos.run(cloud, rounds, faults.CLUSTER, options.only or faults.CLUSTER, options):
            outcomes.append(outcome)
            earlier, errors = errors, cluster.errors(cloud)
            seen = ", ".join(f"{code}: {count}" for code, count in sorted((errors - earlier).items()))
            print(f"      in the logs of databases, brokers and Keystone: {seen or 'nothing'}", flush=True)
            cluster.wait_until_complete(cloud)
    chaos.print_table(outcomes)
    return 0 if all(outcome.kept for outcome in outcomes) else 1


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/berth cluster", __doc__)
    parser.share(hosts=FEWEST_HOSTS, callers=CALLERS, seconds=20.0, minutes=120.0, seed=1, directory=None)
    made = "virtual environment with Keystone, which is made if need be"
    parser.add("--software", SOFTWARE, made, type=Path)
    only = {"action": "append", "choices": faults.CLUSTER, "metavar": "FAULT"}
    parser.add("--only", None, "this fault; may be repeated", **only)
    releases = "whose RabbitMQ is used: that of this machine, or RabbitMQ 4 of Debian 13"
    parser.add("--rabbitmq", "here", releases, choices=("here", "trixie"))
    parser.add("--machines", command.MACHINES, "where systems of Debian are kept", type=Path)
    return parser.parse_args(arguments)
