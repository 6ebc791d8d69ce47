"""A whole OpenStack on loopback, and what is done to it with nova-scheduler and with Berth.

Commands on the cloud in --directory:
  up                   start what does not run, and make what is missing; again after an interruption
  down                 end it, and remove everything but the software
  scheduler NAME       let nova or berth serve, in the place of the other, without a gap
  status               what runs, and where
  env                  variables for the openstack client: eval "$(tools/cloud env)"
  audit                berth-status audit and nova-manage placement audit
Scenarios, each with nova-scheduler and with Berth:
  migrate              one replaces the other, and back, while users call the API: no call fails
  burst                many boots at once: time until ACTIVE, and the scheduler's share
"""

import argparse
from collections.abc import Callable
import os
from pathlib import Path
import shlex

from tools.openstack import burst, migrate
from tools.openstack.audits import show_audits
from tools.openstack.deployment import Deployment
from tools.openstack.layout import Layout
from tools.openstack.schedulers import Schedulers
from tools.openstack.services import Services
from tools.rig import command

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "berth-cloud"


def up(layout: Layout, options: argparse.Namespace) -> int:
    """Start what does not run, and make what is missing."""
    layout.prepare(options.hosts)
    deployment = Deployment(layout)
    deployment.up(options.scheduler)
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
    print(f"Served by {', '.join(schedulers.running())}; configuration: {schedulers.config_file}")
    return 0


def status(layout: Layout, _: argparse.Namespace) -> int:
    """Show what runs."""
    for name, (pid, _) in layout.processes.items():
        state = "runs" if Services(layout).running(name) else "has ended"
        print(f"{name:20} {pid:8}  {state}")
    print(f"scheduler: {', '.join(Schedulers(layout).running())}")
    return 0


def env(layout: Layout, _: argparse.Namespace) -> int:
    """Print variables for clients, and the PATH to them."""
    values = {
        "OS_AUTH_URL": layout.url("identity"),
        "OS_USERNAME": "admin",
        "OS_PASSWORD": layout.password,
        "OS_PROJECT_NAME": "admin",
        "OS_USER_DOMAIN_NAME": "Default",
        "OS_PROJECT_DOMAIN_NAME": "Default",
        "OS_IDENTITY_API_VERSION": "3",
        "NOVA_CONF": str(Schedulers(layout).config_file),
    }
    for name, value in values.items():
        print(f"export {name}={shlex.quote(value)}")
    print(f"export PATH={shlex.quote(str(layout.software / 'client' / 'bin'))}:$PATH")
    return 0


COMMANDS: dict[str, Callable[[Layout, argparse.Namespace], int]] = {
    "up": up,
    "down": down,
    "scheduler": scheduler,
    "status": status,
    "env": env,
    "audit": lambda layout, _: 0 if show_audits(layout) else 1,
    "migrate": migrate.main,
    "burst": burst.main,
}
#: Commands that change nothing, and so may run beside another one.
READ_ONLY = ("status", "env", "audit")


def main(arguments: list[str] | None = None) -> int:
    """Run one command; return 1 if a result is not as promised."""
    options = _parse(arguments)
    with command.running("cloud", options.directory):
        layout = Layout(options.directory, options.software)
        if options.command not in {"up", "down"} and not layout.exists:
            raise RuntimeError(f"there is no cloud in {options.directory}: tools/cloud up")
        if options.command in READ_ONLY:
            return COMMANDS[options.command](layout, options)
        with layout.locked():
            return COMMANDS[options.command](layout, options)


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/cloud", __doc__)
    parser.share(directory=CACHE)
    parser.add("--software", None, "virtual environments (default: below the directory)", type=Path)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND", parser_class=_Sub)
    each = commands.add_parser("up")
    each.share(hosts=8)
    each.add("--scheduler", "nova", "the scheduler that serves", choices=["nova", "berth"])
    each = commands.add_parser("down")
    each.add_argument("--keep", action="store_true", help="keep databases, logs and configuration")
    each = commands.add_parser("scheduler")
    each.add_argument("name", choices=["nova", "berth"])
    each = commands.add_parser("migrate")
    each.share(callers=4, seed=1)
    each.add("--operations", 20, "operations that end in each phase, at least")
    each.add("--revision", "", "another revision of this repository, which serves in between")
    each = commands.add_parser("burst")
    each.add("--servers", 100, "servers of a burst")
    each.add("--rounds", 1, "bursts of each scheduler")
    for name in READ_ONLY:
        commands.add_parser(name)
    options = parser.parse_args(arguments)
    if options.command == "up":
        parser.bound(options, hosts=(4, 64))
    return options


class _Sub(command.Parser):
    def __init__(self, *, prog: str, **more: object) -> None:
        super().__init__(prog, str(more.get("description") or ""))
