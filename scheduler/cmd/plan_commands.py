"""berth-plan drain, survive, balance and policy: questions about the instances that exist."""

import argparse
from datetime import UTC, datetime
from typing import Any

from scheduler import conf as options
from scheduler.cmd.arguments import positive_integer, since
from scheduler.cmd.explain_decisions import Shown
from scheduler.cmd.plan_base import PlanCommand, WrongArgument, rows_of_hosts
from scheduler.planning import balance, drain, policy, survive
from scheduler.planning.cloud import PlannedCloud
from scheduler.planning.requests import pairs
from scheduler.planning.snapshot import ShowProgress

Plan = dict[str, Any]


#: Requests that are decided again at most.
MOST_REQUESTS = 10_000


class Drain(PlanCommand):
    """Say where each instance of some hosts would go, in an order that works, or why it cannot.

    Exit status: 0 every instance finds a place, 3 some do not, 255 no plan could be made.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="HOST", nargs="*", help="a service host that is to be empty")
        for name in ("aggregate", "zone", "cell"):
            parser.add_argument(
                f"--{name}", action="append", default=[], metavar="NAME",
                help=f"all hosts of this {name}; can be repeated",
            )  # fmt: skip
        parser.add_argument(
            "--commands", action="store_true",
            help="print only the openstack commands that carry out the moves, one a line",
        )  # fmt: skip
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace, progress: ShowProgress) -> Plan:
        found = drain.drain(cloud, rows_of_hosts(cloud, args), progress)
        return found | {"all_placed": not found["without_place"]}

    def _print(self, shown: Shown, args: argparse.Namespace) -> None:
        if not args.commands:
            super()._print(shown, args)
            return
        for line in drain.commands(shown.document):
            self.app.stdout.write(f"{line}\n")


class Survive(PlanCommand):
    """Say for each failure domain whether all its instances would find a place on the rest.

    Exit status: 0 all failures are survived, 3 some are not, 255 no plan could be made.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group()
        what.add_argument(
            "--hosts", type=positive_integer, default=1, metavar="N",
            help="hosts of a cell that fail together (default: %(default)d)",
        )  # fmt: skip
        what.add_argument(
            "--by", metavar="zone|aggregate:PATTERN", help="what fails as a whole, such as aggregate:rack*"
        )
        parser.add_argument(
            "--flavor", metavar="NAME|ID",
            help="the flavor in which is counted what may still be sold (default: that of most instances)",
        )  # fmt: skip
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace, progress: ShowProgress) -> Plan:
        domains = survive.domains_of(cloud.snapshot, args.by, args.hosts)
        found = survive.survive(cloud, domains, args.flavor, progress)
        return found | {"all_placed": found["survived"] == found["domains"]}


class Balance(PlanCommand):
    """Name the moves that help most, by the cloud's own weighers; the filters allow each of them.

    Exit status: 0, or 255 if no plan could be made.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--goal", choices=(balance.SPREAD, balance.PACK), default=balance.SPREAD,
            help="spread: instances on the hosts that the weighers prefer; pack: hosts that are empty "
            "(default: %(default)s)",
        )  # fmt: skip
        parser.add_argument(
            "--moves",
            type=positive_integer,
            default=20,
            metavar="N",
            help="moves at most (default: %(default)d)",
        )
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace, progress: ShowProgress) -> Plan:
        return balance.balance(cloud, args.goal, args.moves, progress) | {"all_placed": True}


class Policy(PlanCommand):
    """Say what other options would change for the latest requests.

    Exit status: 0 all find a host with the other options, 3 some do not, 255 no plan could be made.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--set", action="append", default=[], dest="settings", metavar="[GROUP.]OPTION=VALUE",
            help="an option, of [filter_scheduler] if no group is named, with its value as in nova.conf; "
            "can be repeated",
        )  # fmt: skip
        parser.add_argument(
            "--other-config", metavar="FILE", help="another configuration file in place of all options"
        )
        parser.add_argument(
            "--last", type=positive_integer, metavar="N", default=100,
            help="the number of requests at most (default: %(default)d)",
        )  # fmt: skip
        parser.add_argument(
            "--since",
            type=since,
            metavar="TIME",
            help="only requests since this time, or of this age, such as 1d",
        )
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace, progress: ShowProgress) -> Plan:
        if not args.settings and not args.other_config:
            raise WrongArgument("Nothing differs: give --set or --other-config")
        other = options.load([f"--config-file={args.other_config}"]) if args.other_config else None
        begin = None if args.since is None else datetime.fromtimestamp(args.since, UTC).replace(tzinfo=None)
        at_most = MOST_REQUESTS if begin is not None else min(args.last, MOST_REQUESTS)
        uuids = cloud.snapshot.stored.latest(at_most, begin)
        found = policy.policy(cloud.snapshot, dict(pairs(args.settings)), uuids, progress, other)
        return found | {"all_placed": not found["sides"]["changed"]["refused"]}
