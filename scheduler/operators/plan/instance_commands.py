"""berth-plan drain, survive, balance and policy: questions about the instances that exist."""

import argparse
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from scheduler import conf as options
from scheduler.logs import sanitize
from scheduler.operators.command import textfile
from scheduler.operators.command.arguments import add_number, add_since, writing
from scheduler.operators.plan import balance, drain, failures, policy, script, survive
from scheduler.operators.plan.command_base import PlanCommand, WrongArgument, rows_of_hosts, unknown
from scheduler.operators.plan.movable import way_of, way_off_a_dead_host
from scheduler.operators.run.run_command import RunnablePlan
from scheduler.operators.shown.shown import Shown
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import pairs

Plan = dict[str, Any]


#: Requests that are decided again at most.
MOST_REQUESTS = 10_000


class Drain(RunnablePlan):
    """Plan how to empty hosts: the new host of each instance, in an order that works, or why it has none.

    Exit status: 0 every instance finds a place, 3 some do not, 255 no plan could be made. With --run: 0 the
    hosts are empty, 3 some instances stay, 4 stopped, 5 interrupted, 255 not begun.
    """

    kind = "drain"

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
        parser.add_argument(
            "--evacuate", action="store_true", help="the hosts are down: evacuate their instances"
        )
        parser.add_argument(
            "--reset-states", action="store_true",
            help="evacuate also instances that nova evacuates only after their state was reset to error, "
            "such as paused ones: they start again as their image or volume has them",
        )  # fmt: skip
        return parser

    def add_run(self, group: Any) -> None:
        either = group.add_mutually_exclusive_group()
        super().add_run(either)
        either.add_argument(
            "--undo", action="store_true",
            help="enable the hosts that --run disabled, and show what it moved; nothing is moved back",
        )  # fmt: skip
        group.add_argument("--reason", metavar="TEXT", help="why the hosts are disabled, for nova's API")

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        if args.commands and args.run:
            raise WrongArgument("--commands prints a script, and --run runs the moves itself: choose one")
        if args.reset_states and not args.evacuate:
            raise WrongArgument("--reset-states needs --evacuate")
        evacuating = partial(way_off_a_dead_host, reset_states=args.reset_states)
        found = drain.drain(cloud, rows_of_hosts(cloud, args), evacuating if args.evacuate else way_of)
        return found | {"all_placed": not found["without_place"]}

    def words(self, args: argparse.Namespace) -> Sequence[str]:
        named = ((name, each) for name in ("aggregate", "zone", "cell") for each in getattr(args, name))
        return [*args.host, *(f"{name}={each}" for name, each in named)]

    def evacuates(self, args: argparse.Namespace) -> bool:
        return bool(args.evacuate)

    def emit(self, shown: Shown, args: argparse.Namespace) -> None:
        """Print the plan, or only its commands."""
        if not args.commands or args.undo:
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
        parser.add_argument(
            "--by",
            metavar="zone|aggregate:PATTERN",
            help="fail whole availability zones, or aggregates whose names match a pattern, such as "
            "aggregate:rack*",
        )
        parser.add_argument(
            "--flavor", metavar="NAME|ID",
            help="count how many instances of this flavor may be added (default: the most frequent flavor)",
        )  # fmt: skip
        parser.add_argument(
            "--all", action="store_true",
            help="check all kinds of failures: of one host, of a failure domain and of a zone, with the "
            "flavors at risk. Failure domains are the aggregates that have [berth] failure_domain_key, or "
            "those of --by",
        )  # fmt: skip
        parser.add_argument(
            "--textfile", metavar="FILE",
            help="with --all: write the result as metrics for the textfile collector of node-exporter",
        )  # fmt: skip
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        if args.all:
            return self._all(cloud, args)
        if args.textfile:
            raise WrongArgument("--textfile needs --all")
        domains = survive.domains_of(cloud.snapshot, args.by)
        found = survive.survive(cloud, domains, args.flavor)
        survived = found["survived"] + found["survived_by_hand"]
        return found | {"all_placed": survived == found["domains"]}

    def _all(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        kind, _, pattern = (args.by or "").partition(":")
        if args.flavor or (args.by and (kind != "aggregate" or not pattern)):
            raise WrongArgument("--all takes --by aggregate:PATTERN, and no --flavor")
        found = failures.failures(cloud, failures.domains_of_each_kind(cloud.snapshot, pattern or None))
        if args.textfile:
            with writing(f"Cannot write {args.textfile}"):
                textfile.write(args.textfile, failures.metrics(found))
        return found | {"all_placed": not any(one["without_place"] for one in found["kinds"])}


class Balance(RunnablePlan):
    """Propose the moves that bring the cloud closest to a goal. All filters allow each move.

    Exit status: 0, 255 if no plan could be made. With --run: as drain.
    """

    kind = "balance"
    repeats = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--goal", default=balance.SPREAD, metavar="GOAL",
            help="spread: make the share of memory in use more even; pack: empty as many hosts as possible "
            "(default: spread)",
        )  # fmt: skip
        add_number(parser, "--moves", 20, "maximum number of moves")
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        if args.goal not in balance.GOALS:
            raise WrongArgument(unknown("goal", args.goal, balance.GOALS))
        return balance.balance(cloud, args.goal, args.moves) | {"all_placed": True}

    def left(self, cloud: PlannedCloud, args: argparse.Namespace, moved: int) -> Plan:
        most = max(0, args.moves - moved)
        return self.plan(cloud, argparse.Namespace(**{**vars(args), "moves": most}))


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
        parser.add_argument(
            "--rows", action="store_true", help="also list each instance that would go elsewhere"
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
        return found | {"all_placed": not found["sides"]["changed"]["refused"], "with_rows": args.rows}
