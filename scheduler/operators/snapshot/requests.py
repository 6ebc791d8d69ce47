"""Requests for plans: of a flavor, a file with a RequestSpec, or an existing instance."""

import argparse
from collections.abc import Collection, Iterable, Iterator
import difflib
import json
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_utils import uuidutils

from scheduler import objects
from scheduler.errors import BerthError, InvalidRequest
from scheduler.operators.snapshot import as_nova_api
from scheduler.operators.snapshot.as_nova_api import guest_topology
from scheduler.operators.snapshot.request_specs import NotFound, RequestSpecs
from scheduler.operators.snapshot.snapshot import Snapshot
from scheduler.request.flavor_and_image import FlavorAndImage
from scheduler.request.reading import read

#: The filter that reads a hint.
READERS = {
    "build_near_host_ip": "SimpleCIDRAffinityFilter",
    "cidr": "SimpleCIDRAffinityFilter",
    "different_host": "DifferentHostFilter",
    "query": "JsonFilter",
    "same_host": "SameHostFilter",
}

#: The hint that names a server group, and the rule without which nova's conductors refuse its policy.
GROUP = "group"
POLICIES = {
    "affinity": "ServerGroupAffinityFilter",
    "anti-affinity": "ServerGroupAntiAffinityFilter",
    "soft-affinity": "ServerGroupSoftAffinityWeigher",
    "soft-anti-affinity": "ServerGroupSoftAntiAffinityWeigher",
}


class WrongArgument(BerthError):
    """An argument names something that does not exist, or contradicts another argument."""


def make_request(args: argparse.Namespace, stored: RequestSpecs, conf: cfg.ConfigOpts) -> objects.RequestSpec:
    """Return the request that the arguments of ``plan.command.RequestPlan`` describe."""
    spec: Any  # its fields are made at run time
    if args.like:
        spec = stored.of_instance(args.like)
    elif args.spec:
        spec = read_file(args.spec)
    else:
        image = stored.image(args.image) if args.image else objects.ImageMeta()
        spec = of(stored.flavor(args.flavor), image, conf, args.image_property)
    spec.instance_uuid = uuidutils.generate_uuid()
    spec.num_instances = getattr(args, "count", 1)
    _apply(args, spec)
    _load_group(args, spec, stored)
    return spec


def read_file(name: str) -> objects.RequestSpec:
    """Return the RequestSpec in a file."""
    try:
        found = objects.hydrate(json.loads(Path(name).read_text()), None)
    except (OSError, ValueError, InvalidRequest) as error:
        raise WrongArgument(f"Cannot read {name} as a RequestSpec: {error}") from error
    if not isinstance(found, objects.RequestSpec):
        raise WrongArgument(f"There is no RequestSpec in {name}")
    return found


def _load_group(args: argparse.Namespace, spec: Any, stored: RequestSpecs) -> None:
    """Put the request into the server group of its hint, as nova-api does.

    A stored request has only the UUID of its group, which may be deleted; a sent one has all of it.
    """
    hinted = [value for name, value in pairs(args.hint) if name == GROUP]
    if len(hinted) > 1:
        raise WrongArgument("A request can be in one server group only")
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
    if args.az:  # ZONE:HOST:NODE of an administrator
        zone, host, node = [*args.az.split(":", 2), "", ""][:3]
        spec.availability_zone = zone or None
        if host:
            spec.force_hosts = [host]
        if node:
            spec.force_nodes = [node]
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


def of(
    flavor: objects.Flavor, image: objects.ImageMeta, conf: cfg.ConfigOpts, properties: Iterable[str] = ()
) -> Any:
    """Return a request with the topology of the guest and its PCI devices, as nova-api makes them."""
    known: Any = image
    known.properties = objects.ImageMetaProps.from_dict(known.properties.to_dict() | dict(pairs(properties)))
    spec: Any = objects.RequestSpec(
        flavor=flavor,
        image=image,
        pci_requests=objects.InstancePCIRequests(requests=[]),
        instance_group=None,
        scheduler_hints={},
        project_id=None,
        user_id=None,
        availability_zone=None,
        num_instances=1,
    )
    wishes = FlavorAndImage(spec)
    in_placement = conf.filter_scheduler.pci_in_placement
    spec.numa_topology = guest_topology(wishes)
    if wishes.extra_specs.get(as_nova_api.EXTRA_SPEC):
        aliases = as_nova_api.read_aliases(conf.pci.alias, in_placement=in_placement)
        spec.pci_requests = as_nova_api.pci_requests(wishes, aliases)
    if in_placement:
        spec.requested_resources = as_nova_api.request_groups(spec.pci_requests)
    return spec


def pairs(given: Iterable[str]) -> list[tuple[str, str]]:
    """Return the keys and values of arguments such as ``KEY=VALUE``."""
    found = []
    for one in given:
        key, equals, value = one.partition("=")
        if not equals or not key:
            raise WrongArgument(f"{one} is not KEY=VALUE")
        found.append((key, value))
    return found


def of_flavor(snapshot: Snapshot, name: str) -> objects.RequestSpec:
    """Return a request for one instance of a flavor and nothing else.

    Raises:
        NotFound: There is no such flavor.
    """
    spec = of(snapshot.stored.flavor(name), objects.ImageMeta(), snapshot.conf)
    spec.instance_uuid = uuidutils.generate_uuid()
    return spec


def hint_notes(spec: objects.RequestSpec, rules: Collection[str]) -> Iterator[str]:
    """Yield which hints have no effect with the rules in use, and which server group nova would refuse."""
    for name in read(spec, "scheduler_hints", {}):
        reader = READERS.get(name)
        if reader is not None and reader not in rules:
            yield f"Hint {name} has no effect: {reader} is not enabled"
        elif reader is None and name != GROUP:
            near = difflib.get_close_matches(name, [*READERS, GROUP], 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield f"Hint {name} has no effect: no filter of nova reads it{meant}"
    policy = read(read(spec, "instance_group"), "policy")
    if policy in POLICIES and POLICIES[policy] not in rules:
        yield f"nova-conductor refuses server groups with policy {policy}: {POLICIES[policy]} is not enabled"
