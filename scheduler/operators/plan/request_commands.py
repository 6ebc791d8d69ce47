"""berth-plan capacity and dry-run: plans for requests that were not made."""

import argparse
import logging
from typing import Any

from scheduler.operators.command import textfile
from scheduler.operators.command.arguments import add_number, writing
from scheduler.operators.plan import capacities, capacity, dry_run
from scheduler.operators.plan.command_base import PlanCommand, WrongArgument
from scheduler.operators.snapshot import hints, requests
from scheduler.operators.snapshot.planned_cloud import PlannedCloud

LOG = logging.getLogger("berth-plan")

Plan = dict[str, Any]


class RequestPlan(PlanCommand):
    """The base of plans for a request, which a flavor, a file or an existing instance describes."""

    needs_request = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group(required=self.needs_request)
        what.add_argument("--flavor", metavar="NAME|ID", help="a request for this flavor")
        what.add_argument("--like", metavar="INSTANCE_UUID", help="the stored request of this instance")
        what.add_argument(
            "--spec", metavar="FILE", help="a file with a RequestSpec in JSON, as nova stores it"
        )
        parser.add_argument(
            "--image", metavar="UUID", help="an image; one of the latest requests must have it"
        )
        for name, meta, words in (
            ("image-property", "KEY=VALUE", "an image property"),
            ("hint", "KEY=VALUE", "a scheduler hint, such as group=UUID of a server group"),
            ("ignore-host", "HOST", "a host to leave out"),
        ):
            parser.add_argument(
                f"--{name}", action="append", default=[], metavar=meta, help=f"{words}; can be repeated"
            )
        parser.add_argument(
            "--az",
            metavar="ZONE[:HOST[:NODE]]",
            help="availability zone; with HOST, the host is forced",
        )
        parser.add_argument("--project", metavar="ID", help="project of the request")
        parser.add_argument(
            "--boot-from-volume", action="store_true", help="the root disk is a volume, not on the host"
        )
        return parser


class DryRun(RequestPlan):
    """Decide a request without claiming anything: the hosts that it would get now, or why none.

    Exit status: 0 every instance finds a place, 3 some do not, 255 it could not be found out.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_number(parser, "--count", 1, "number of instances")
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        found = dry_run.dry_run(cloud, requests.make_request(args, cloud.snapshot.stored, self.conf))
        return found | {"all_placed": found["placed"] == found["instances"]}


class Capacity(RequestPlan):
    """Count how many more instances of a request fit, by cell and zone, and which resource runs out first.

    Exit status: 0 one more fits, 3 none does, 255 it could not be found out.
    """

    needs_request = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--all", action="store_true", help="count for all flavors, also after the loss of any one host"
        )
        parser.add_argument(
            "--textfile",
            metavar="FILE",
            help="with --all: write the counts as metrics for the textfile collector of node-exporter",
        )
        return parser

    def plan(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        described = any((args.flavor, args.like, args.spec))
        if args.all == described:
            raise WrongArgument("Give either --all or one of --flavor, --like and --spec")
        if args.textfile and not args.all:
            raise WrongArgument("--textfile needs --all")
        if args.all:
            return self._all(cloud, args)
        spec = requests.make_request(args, cloud.snapshot.stored, self.conf)
        hinted = any(name == hints.GROUP for name, _ in requests.pairs(args.hint))
        if requests.without_group(spec, hinted=hinted):
            LOG.warning("The server group of the request is left out: capacity is counted host by host")
        found = capacity.capacity(cloud, spec)
        return found | {"all_placed": found["instances"] > 0}

    def _all(self, cloud: PlannedCloud, args: argparse.Namespace) -> Plan:
        found = capacities.capacities(cloud, cloud.snapshot.stored.flavors())
        if args.textfile:
            with writing(f"Cannot write {args.textfile}"):
                textfile.write(args.textfile, capacities.text(found))
        return {"plan": "capacities", "flavors": found, "all_placed": True}
