"""berth-plan drain, survive, balance and policy: questions about the instances that exist."""

import argparse
from datetime import UTC, datetime
from typing import Any

from scheduler import conf as options
from scheduler.logs import sanitize
from scheduler.operators.command.arguments import add_number, add_since
from scheduler.operators.plan import balance, drain, policy, script, survive
from scheduler.operators.plan.command_base import PlanCommand, WrongArgument, rows_of_hosts
from scheduler.operators.shown.shown import Shown
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import pairs

Plan = dict[str, Any]


#: Requests that are decided again at most.
MOST_REQUESTS = 10_000


class Drain(PlanCommand):
    """Plan how to empty hosts: the new host of each instance, in an order that works, or why it has none.

    Exit status: 0 every instance finds a place, 3 some do not, 255 no plan could be made.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="HOST", nargs="*", help="a service host to empty")
        for name in ("aggregate", "zone", "cell"):
            parser.add_argument(
                f"--{name}", action="append", default=[], metavar="NAME",
                help=f"empty all hosts of this {name}; can be repeated",
            )  # fmt: skip
        parser.add_argument(
            "--commands", action="store_true",
            help="print only a shell script with the openstack commands that carry out the moves",
        )  # fmt: skip
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        found = drain.drain(cloud, rows_of_hosts(cloud, args))
        return found | {"all_placed": not found["without_place"]}

    def emit(self, shown: Shown, args: argparse.Namespace) -> None:
        """Print the plan, or only its commands."""
        if not args.commands:
            super().emit(shown, args)
            return
        self.app.stdout.write(f"# {sanitize(str(self.origin(shown)))}\n")
        for line in script.commands(shown.document):
            self.app.stdout.write(f"{line}\n")


class Survive(PlanCommand):
    """Check for each failure domain whether the other hosts have room for all its instances.

    Exit status: 0 there is room in all cases, 3 in some there is not, 255 no plan could be made.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group()
        add_number(what, "--hosts", 1, "number of hosts of a cell that fail together")
        what.add_argument(
            "--by",
            metavar="zone|aggregate:PATTERN",
            help="fail whole availability zones, or aggregates whose names match a pattern, such as "
            "aggregate:rack*",
        )
        parser.add_argument(
            "--flavor", metavar="NAME|ID",
            help="count how many instances of this flavor may be added (default: the most frequent flavor)",
        )  # fmt: skip
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        domains = survive.domains_of(cloud.snapshot, args.by, args.hosts)
        found = survive.survive(cloud, domains, args.flavor)
        return found | {"all_placed": found["survived"] == found["domains"]}


class Balance(PlanCommand):
    """Propose the moves that improve the weights of the cloud most. All filters allow each move.

    Exit status: 0, or 255 if no plan could be made.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--goal", choices=(balance.SPREAD, balance.PACK), default=balance.SPREAD,
            help="spread: move instances to the hosts that the weighers prefer; pack: empty as many hosts as "
            "possible (default: %(default)s)",
        )  # fmt: skip
        add_number(parser, "--moves", 20, "maximum number of moves")
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        return balance.balance(cloud, args.goal, args.moves) | {"all_placed": True}


class Policy(PlanCommand):
    """Compare the hosts that the latest requests get with the options in use and with other options.

    Exit status: 0 all find a host with the other options, 3 some do not, 255 no plan could be made.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--set", action="append", default=[], dest="settings", metavar="[GROUP.]OPTION=VALUE",
            help="change an option, of [filter_scheduler] if no group is named; the value is written as in "
            "nova.conf; can be repeated",
        )  # fmt: skip
        parser.add_argument(
            "--other-config", metavar="FILE", help="use this configuration file as the other options"
        )
        add_number(parser, "--last", 100, "maximum number of requests")
        add_since(parser, None)
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        if not args.settings and not args.other_config:
            raise WrongArgument("Nothing differs: give --set or --other-config")
        conf = cloud.snapshot.conf
        files = [args.other_config] if args.other_config else conf.config_file
        directories = [] if args.other_config else conf.config_dir
        other = options.load(
            [f"--config-file={name}" for name in files] + [f"--config-dir={name}" for name in directories]
        )
        begin = None if args.since is None else datetime.fromtimestamp(args.since, UTC).replace(tzinfo=None)
        at_most = MOST_REQUESTS if begin is not None else min(args.last, MOST_REQUESTS)
        uuids = cloud.snapshot.stored.latest(at_most, begin)
        found = policy.policy(cloud.snapshot, dict(pairs(args.settings)), uuids, other)
        return found | {"all_placed": not found["sides"]["changed"]["refused"]}
