"""A whole OpenStack on loopback, and what is done to it with nova-scheduler and with Berth.

Commands on the cloud in --directory:
  install              install the software alone, which up does too if it is missing
  up                   start what does not run, and make what is missing; again after an interruption
  down                 end it, and remove everything but the software
  scheduler NAME       let nova or berth serve, in the place of the other, without a gap
  status               what runs, and where
  env                  variables for the openstack client: eval "$(tools/berth cloud env)"
  audit                berth-status audit and nova-manage placement audit
Scenarios, each with nova-scheduler and with Berth:
  migrate              one replaces the other, and back, while users call the API: no call fails
  burst                many boots at once: time until ACTIVE, and the scheduler's share
  tempest              OpenStack's own tests: what passes with nova-scheduler passes with Berth
  outage               a part is killed, stopped or frozen in a burst: builds that end in ERROR
  plans                drain, balance, survive, losses and capacity of berth-plan, carried out
  shadow               berth-shadow beside nova-scheduler, with users: what it would have refused
  runs                 berth-plan --run: interrupted, killed, refused, and with what others do
  short                a little of each, for continuous integration
"""

import argparse
from collections.abc import Callable
import os
from pathlib import Path
import shlex

from tools.openstack import burst, migrate, outage, plans, shadow, short, software, tempest
from tools.openstack.deployment import Deployment
from tools.openstack.layout import Layout
from tools.openstack.programs import show_audits
from tools.openstack.services import Schedulers, Services
from tools.rig import command

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth-cloud"


def install(layout: Layout, _: argparse.Namespace) -> int:
    """Install OpenStack and its clients, unless they are there."""
    software.make(layout.software)
    return 0


def up(layout: Layout, options: argparse.Namespace) -> int:
    """Start what does not run, and make what is missing."""
    layout.prepare(options.hosts)
    Deployment(layout).up(options.scheduler)
    return 0


def down(layout: Layout, options: argparse.Namespace) -> int:
    """End the cloud."""
    if layout.exists:
        Deployment(layout).down(keep=options.keep)
    return 0


def scheduler(layout: Layout, options: argparse.Namespace) -> int:
    """Let a scheduler serve in the place of the other."""
    schedulers = Schedulers(layout)
    schedulers.replace(options.name)
    print(f"Served by {', '.join(schedulers.running())}; configuration: {layout.nova_conf}")
    return 0


def status(layout: Layout, _: argparse.Namespace) -> int:
    """Show what runs."""
    for name, state in Services(layout).states().items():
        print(f"{name:22} {state}")
    print(f"scheduler: {', '.join(Schedulers(layout).running())}")
    return 0


def env(layout: Layout, _: argparse.Namespace) -> int:
    """Print variables for clients, and the PATH to them."""
    values = {**layout.credentials(), "NOVA_CONF": str(layout.nova_conf)}
    for name, value in values.items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"export PATH={shlex.quote(str(layout.software / 'client' / 'bin'))}:$PATH")
    return 0


def audit(layout: Layout, _: argparse.Namespace) -> int:
    """Compare Placement with nova's databases by both audits; return 1 if they find something."""
    return 0 if show_audits(layout) else 1


COMMANDS: dict[str, Callable[[Layout, argparse.Namespace], int]] = {
    "install": install,
    "up": up,
    "down": down,
    "scheduler": scheduler,
    "status": status,
    "env": env,
    "audit": audit,
    "migrate": migrate.main,
    "burst": burst.main,
    "outage": outage.main,
    "plans": plans.main,
    "runs": plans.main,
    "shadow": shadow.main,
    "tempest": tempest.main,
    "short": short.main,
}
#: Commands that change nothing, and so may run beside another one.
READ_ONLY = ("status", "env", "audit")
SWAPPED = ("nova", "berth")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 1 if a result is not as promised."""
    options = _parse(arguments)
    with command.running("cloud", options.directory):
        layout = Layout(options.directory, options.software)
        started = layout.exists and Services(layout).supervised
        if options.command not in {"install", "up", "down", "env"} and not started:
            raise RuntimeError(f"there is no cloud in {options.directory}: tools/berth cloud up")
        if options.command in READ_ONLY:
            return COMMANDS[options.command](layout, options)
        with layout.locked():
            return COMMANDS[options.command](layout, options)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/berth cloud", __doc__)
    parser.add("--directory", CACHE, "where everything of the cloud is", type=Path)
    parser.add("--software", None, "virtual environments (default: below the directory)", type=Path)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Sub)
    each = {name: commands.add_parser(name, description=act.__doc__) for name, act in COMMANDS.items()}
    each["up"].share(hosts=8)
    each["up"].add(
        "--scheduler", None, "the scheduler that serves (default: as before, or nova)", choices=SWAPPED
    )
    each["down"].add_argument("--keep", action="store_true", help="keep databases, logs and configuration")
    each["scheduler"].add_argument("name", choices=SWAPPED)
    each["migrate"].share(callers=4, seed=1)
    each["migrate"].add("--operations", 20, "operations that end in each phase, at least")
    each["migrate"].add("--revision", "", "another revision of this repository, which serves in between")
    each["burst"].add("--servers", 100, "servers of a burst")
    each["outage"].share(seconds=30.0, seed=1, minutes=90.0)
    each["outage"].add("--servers", 24, "servers of each burst")
    faults = [f"{part}:{way}" for part in outage.PARTS for way in outage.WAYS]
    each["outage"].add(
        "--only",
        [],
        f"what is broken ({', '.join(outage.PARTS)}), and how ({', '.join(outage.WAYS)})",
        nargs="+",
        choices=faults,
        metavar="PART:WAY",
    )
    for name, table in plans.SITUATIONS.items():
        each[name].share(seed=1)
        each[name].add("--only", [], f"{name} (default: all)", nargs="+", choices=table)
    each["plans"].add("--servers", 24, "servers in the cloud")
    each["shadow"].share(callers=4, seed=1, minutes=60.0)
    each["tempest"].add("--tests", "scheduler", "which tests", choices=tempest.SETS)
    for name in ("outage", "tempest"):
        each[name].add("--schedulers", list(SWAPPED), "schedulers, in turns", nargs="+", choices=SWAPPED)
    each["tempest"].share(minutes=300.0)
    each["tempest"].add("--concurrency", 2, "tests at the same time")
    each["short"].share(callers=2, seed=1, minutes=20.0)
    each["short"].set_defaults(tests="short", schedulers=["berth"], revision="", concurrency=2)
    each["short"].add("--operations", 4, "operations that end in each phase of the swap, at least")
    options = parser.parse_args(arguments)
    if options.command == "up":
        parser.bound(options, hosts=(4, 64))
    return options


class _Sub(command.Parser):
    def __init__(self, *, prog: str, **more: object) -> None:
        super().__init__(prog, str(more.get("description") or ""))
