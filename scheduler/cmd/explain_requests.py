"""berth-explain dry-run and capacity: questions about requests that were not made."""

import argparse
from collections.abc import Iterable
import json
import logging
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_utils import uuidutils

from scheduler import objects
from scheduler.cmd import explain_text as text
from scheduler.cmd.explain_decisions import (
    DRY_RUN,
    NotAnswered,
    Question,
    Shown,
    Told,
    add_hosts_option,
    complain,
    not_answered,
    shown_decision,
)
from scheduler.conf.partitions import MOST_PARTITIONS
from scheduler.errors import BerthError, InvalidRequest
from scheduler.explain import capacity, hints
from scheduler.logs import brief
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.request_specs import NotFound, RequestSpecs
from scheduler.request import pci_aliases
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.guest_topology import guest_topology
from scheduler.request.reading import read
from scheduler.rpc import explain

LOG = logging.getLogger(__name__)

#: Seconds that such an answer may take: Placement is asked.
TIMEOUT = 60.0

#: How often a dry run is sent on: to each partition, from a scheduler of none.
MOST_STEPS = MOST_PARTITIONS + 1


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
        request = self.request(args)
        if args.scheduler:
            name, found = first_answer(self.schedulers(args), "dry_run", spec_obj=request)
        else:
            name, found = self._routed(args, request)
        return shown_decision(Told(found, DRY_RUN, name), args.hosts)

    def _routed(self, args: argparse.Namespace, request: objects.RequestSpec) -> tuple[str, str]:
        """Return the scheduler of the last partition to which the request would be sent, and its document.

        Raises:
            NotAnswered: No scheduler of a partition answers.
        """
        schedulers, tried = self.schedulers(args), list[str]()
        for _ in range(MOST_STEPS):
            name, found = first_answer(schedulers, "routed_dry_run", spec_obj=request, tried=tried)
            onward = found["sent_on"]
            if onward is None:
                return name, found["decision"]
            LOG.info("%s would send the request to partition %s", name, onward["partition"])
            schedulers, tried = self.schedulers(args, onward["hosts"]), onward["tried"]
        raise NotAnswered("The request would be sent on without an end")


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
        divided = {} if args.scheduler else first_answer(self.schedulers(args), "partitions")[1]
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
