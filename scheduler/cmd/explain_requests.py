"""berth-explain dry-run, capacity and compare: questions about requests that were not made, or not so."""

import argparse
from collections.abc import Iterable, Iterator, Sequence
import json
import logging
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_utils import uuidutils

from scheduler import objects
from scheduler.cmd import explain_text as text
from scheduler.cmd.explain_decisions import (
    NotAnswered,
    Question,
    Shown,
    add_hosts_option,
    complain,
    not_answered,
    shown_explanation,
)
from scheduler.conf.changed import read_changes
from scheduler.conf.partitions import all_partitions
from scheduler.errors import BerthError, InvalidRequest
from scheduler.explain import capacity, comparison, hints
from scheduler.explain.explainer import seconds_of
from scheduler.logs import brief
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.request_specs import NotFound, RequestSpecs
from scheduler.request import pci_aliases
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.guest_topology import guest_topology
from scheduler.request.reading import read
from scheduler.router import routing
from scheduler.rpc import explain

LOG = logging.getLogger(__name__)

#: Seconds that such an answer may take: Placement is asked, or many requests are decided again.
TIMEOUT = 60.0


class UnknownRequest(BerthError):
    """The request cannot be made of what was given."""


class RequestQuestion(Question):
    """A question about a request, which is described by a flavor, a file, or an instance that exists."""

    default_timeout = TIMEOUT

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the options that describe a request."""
        parser = super().get_parser(prog_name)
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--flavor", metavar="NAME|ID", help="a flavor of nova's API database")
        what.add_argument("--like", metavar="INSTANCE_UUID", help="the request that the instance was made of")
        what.add_argument("--spec", metavar="FILE", help="a RequestSpec as nova stores and sends it, in JSON")
        parser.add_argument(
            "--image",
            metavar="UUID",
            help="an image that one of the latest requests in the API database has",
        )
        for name, meta, words in (
            ("image-property", "KEY=VALUE", "a property of the image"),
            ("hint", "KEY=VALUE", "a scheduler hint, such as group=UUID of a server group"),
            ("ignore-host", "HOST", "a host that is left out"),
        ):
            parser.add_argument(
                f"--{name}", action="append", default=[], metavar=meta, help=f"{words}; can be repeated"
            )
        parser.add_argument(
            "--az",
            metavar="ZONE[:HOST[:NODE]]",
            help="the availability zone, with a host that is forced if it is named",
        )
        parser.add_argument("--project", metavar="ID", help="the project")
        parser.add_argument(
            "--boot-from-volume", action="store_true", help="the root disk is not on the host"
        )
        return parser

    def request(self, args: argparse.Namespace) -> objects.RequestSpec:
        """Return the request that the arguments describe.

        Raises:
            BerthError: It cannot be made.
        """
        engines = Engines(self.conf)
        try:
            return make_request(args, RequestSpecs(engines), self.conf)
        except UNREADABLE as error:
            raise NotAnswered(f"The API database cannot be read: {brief(error)}") from error
        finally:
            engines.dispose()

    def answer(self, args: argparse.Namespace, method: str, **arguments: Any) -> Any:
        """Return what the first scheduler answers that does, and its name.

        Raises:
            NotAnswered: None does.
        """
        return named(first_answer(self.schedulers(args), method, **arguments))

    def partitions(self, args: argparse.Namespace) -> dict[str, list[str]]:
        """Return the hosts of the schedulers that answer, by partition; none if there are no partitions."""
        found: dict[str, list[str]] = {}
        if all_partitions(self.conf):
            for name, partition in self.schedulers(args).ask("partition").found.items():
                found.setdefault(partition, []).append(name.rpartition(".")[0])
        found.pop("", None)
        return found


def first_answer(asked: explain.Schedulers, method: str, **arguments: Any) -> tuple[str, Any]:
    """Return the name and the answer of the first scheduler that answers.

    Raises:
        NotAnswered: None does.
    """
    answers = asked.ask_one(method, **arguments)
    if not answers.found:
        raise not_answered(answers.failed)
    complain(answers.failed)
    ((name, found),) = answers.found.items()
    return name, found


def named(answer: tuple[str, Any]) -> Any:
    """Return a document with the name of the scheduler that answered it."""
    name, found = answer
    return {**found, "scheduler": name} if found else found


def make_request(args: argparse.Namespace, stored: RequestSpecs, conf: cfg.ConfigOpts) -> objects.RequestSpec:
    """Return the request that the arguments of a command describe.

    Args:
        args: Those of ``RequestQuestion``.
        stored: Reads flavors and requests.
        conf: The options, for PCI aliases.

    Raises:
        BerthError: It cannot be made.
    """
    spec: Any  # its fields are made at run time
    if args.like:
        spec = stored.of_instance(args.like)
    elif args.spec:
        spec = read_file(args.spec)
    else:
        spec = objects.RequestSpec(
            flavor=stored.flavor(args.flavor),
            image=stored.image(args.image) if args.image else objects.ImageMeta(),
            pci_requests=objects.InstancePCIRequests(requests=[]),
            instance_group=None,
            scheduler_hints={},
            project_id=args.project,
            user_id=None,
            availability_zone=None,
        )
        spec.image.properties = _with_properties(spec.image, args.image_property)
        _add_nova_api_s_part(spec, conf)
    spec.instance_uuid = uuidutils.generate_uuid()
    spec.num_instances = getattr(args, "count", 1)
    _apply(args, spec)
    _load_group(args, spec, stored)
    return spec


def read_file(name: str) -> objects.RequestSpec:
    """Return the RequestSpec in a file.

    Raises:
        UnknownRequest: The file cannot be read, or has something else.
    """
    try:
        found = objects.hydrate(json.loads(Path(name).read_text()), None)
    except (OSError, ValueError, InvalidRequest) as error:
        raise UnknownRequest(f"{name} cannot be read as a RequestSpec: {error}") from error
    if not isinstance(found, objects.RequestSpec):
        raise UnknownRequest(f"{name} has no RequestSpec")
    return found


def _load_group(args: argparse.Namespace, spec: Any, stored: RequestSpecs) -> None:
    """Put the request into the server group of its hint, as nova-api does.

    A request that is stored has only the UUID of its group, which may be gone; one that was sent has it all.

    Raises:
        UnknownRequest: A hint names several groups.
        NotFound: A hint names no group.
    """
    hinted = [value for name, value in pairs(args.hint) if name == hints.GROUP]
    if len(hinted) > 1:
        raise UnknownRequest("A request can be in one server group only")
    if hinted:
        spec.instance_group = stored.group(hinted[0])
        return
    known = read(spec, "instance_group")
    if known is None or read(known, "hosts") is not None:
        return
    try:
        spec.instance_group = stored.group(read(known, "uuid"))
    except NotFound:
        spec.instance_group = None


def _apply(args: argparse.Namespace, spec: Any) -> None:
    if args.az:
        _force(spec, *args.az.split(":", 2))
    if args.project:
        spec.project_id = args.project
    if args.boot_from_volume:
        spec.is_bfv = True
    if args.ignore_host:
        spec.ignore_hosts = args.ignore_host
    if args.hint:
        given: dict[str, list[str]] = {}
        for name, value in pairs(args.hint):
            given.setdefault(name, []).append(value)
        spec.scheduler_hints = (spec.scheduler_hints or {}) | given


def _force(spec: Any, zone: str, host: str = "", node: str = "") -> None:
    """Set zone and forced host as nova-api does for an administrator's ZONE:HOST:NODE."""
    spec.availability_zone = zone or None
    if host:
        spec.force_hosts = [host]
    if node:
        spec.force_nodes = [node]


def _with_properties(image: objects.ImageMeta, given: Iterable[str]) -> objects.ImageMetaProps:
    known = image.properties.to_dict()
    return objects.ImageMetaProps.from_dict(known | dict(pairs(given)))


def _add_nova_api_s_part(spec: Any, conf: cfg.ConfigOpts) -> None:
    """Make of flavor and image what nova-api does: the guest's topology and the requests for PCI devices."""
    wishes = FlavorAndImage(spec)
    in_placement = conf.filter_scheduler.pci_in_placement
    spec.numa_topology = guest_topology(wishes)
    if wishes.extra_specs.get(pci_aliases.EXTRA_SPEC):
        aliases = pci_aliases.read_aliases(conf.pci.alias, in_placement=in_placement)
        spec.pci_requests = pci_aliases.pci_requests(wishes, aliases)
    if in_placement:
        spec.requested_resources = pci_aliases.request_groups(spec.pci_requests)


def pairs(given: Iterable[str]) -> list[tuple[str, str]]:
    """Return the keys and values of arguments such as ``KEY=VALUE``.

    Raises:
        UnknownRequest: One has no ``=``.
    """
    found = []
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise UnknownRequest(f"{one} is not KEY=VALUE")
        found.append((key, value))
    return found


class DryRun(RequestQuestion):
    """Say what would happen to a request now; nothing is claimed."""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--count", type=text.positive_integer, default=1, metavar="N", help="instances (default: 1)"
        )
        add_hosts_option(parser)
        return parser

    def show(self, args: argparse.Namespace) -> Shown | None:
        """Return the explanation of what would be decided."""
        asked = {"spec_obj": self.request(args), "most_hosts": args.hosts or explain.MOST_HOSTS}
        if args.scheduler:
            return shown_explanation(self.answer(args, "dry_run", **asked))
        found = None
        for name, hosts in self._in_order(args, asked["spec_obj"]):
            found = named(first_answer(self.schedulers(args, hosts), "dry_run", **asked))
            if found["decision"]["result"] == "scheduled":
                break
            LOG.info("Partition %s has no host", name)
        return shown_explanation(found or self.answer(args, "dry_run", **asked))

    def _in_order(self, args: argparse.Namespace, spec: Any) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield the partitions as a router asks them in order, with the hosts of their schedulers."""
        serving = self.partitions(args)
        if not serving:
            return
        facts = routing.RoutingFacts.of(spec.obj_to_primitive())
        for partition in routing.in_order(facts, all_partitions(self.conf)):
            if hosts := serving.get(partition.name):
                yield partition.name, hosts


def _leave_group(request: Any, *, hinted: bool) -> None:
    """Take a request out of its server group, if it is in one but no hint of the command says so.

    Raises:
        UnknownRequest: A hint does.
    """
    if read(request, "instance_group") is None:
        return
    if hinted:
        raise UnknownRequest("Capacity is counted host by host, without server groups; use dry-run --count")
    LOG.warning("The server group of the request is left out: capacity is counted host by host")
    request.instance_group = None


class Capacity(RequestQuestion):
    """Say how many more instances of a request fit, by cell and zone, and what runs out first."""

    def show(self, args: argparse.Namespace) -> Shown | None:
        """Return how many instances fit."""
        request = self.request(args)
        _leave_group(request, hinted=any(name == hints.GROUP for name, _ in pairs(args.hint)))
        divided = {} if args.scheduler else self.partitions(args)
        if divided:
            found = capacity.joined(
                {
                    name: named(first_answer(self.schedulers(args, hosts), "capacity", spec_obj=request))
                    for name, hosts in divided.items()
                }
            )
        else:
            found = self.answer(args, "capacity", spec_obj=request)
        return Shown(found, text.capacity_lines(found), [text.capacity(found)])


class Compare(Question):
    """Say what other options would change for the latest requests of all workers, or for one request."""

    default_timeout = TIMEOUT

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return the parser of the command's arguments."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--set",
            action="append",
            required=True,
            dest="settings",
            metavar="[GROUP.]OPTION=VALUE",
            help="an option, of [filter_scheduler] if no group is named, with its value as in nova.conf; "
            "can be repeated",
        )
        which = parser.add_mutually_exclusive_group()
        which.add_argument(
            "--last",
            type=text.positive_integer,
            default=100,
            metavar="N",
            help="the number of requests, of all workers together (default: %(default)d)",
        )
        which.add_argument("--decision", metavar="REQUEST_ID|INSTANCE_UUID", help="one request")
        return parser

    def show(self, args: argparse.Namespace) -> Shown | None:
        """Return how the choices differ."""
        settings = dict(pairs(args.settings))
        read_changes(settings)  # a wrong one is told without asking
        schedulers = self.schedulers(args)
        asked = {"settings": settings, "name": args.decision, "at_most": args.last}
        since = 0.0 if args.decision else self._since(schedulers, args.last)
        answers = schedulers.ask("compare", **asked, since=since)
        if not answers.found:
            raise not_answered(answers.failed)
        complain(answers.failed)
        found = {name: answer for name, answer in answers.found.items() if answer}
        document = comparison.joined(found) if found else {"requests": 0, "left_out": {}}
        if not document["requests"]:
            LOG.error("There is no request that can be decided again. %s", text.left_out(document))
            return None
        return Shown(
            document,
            text.comparison_lines(document),
            [text.spread(document), text.choices(document)],
            text.narrow_choices(document),
        )

    def _since(self, schedulers: explain.Schedulers, last: int) -> float:
        """Return the time of the first of the last builds of all workers, in seconds since the epoch."""
        answers = schedulers.ask("decisions", at_most=last)
        times = [one["time"] for found in answers.found.values() for one in found if one["kind"] == "build"]
        return seconds_of(sorted(times)[-last]) if len(times) >= last else 0.0
