"""Builders of requests and of the world that pre-filters ask."""

import logging
from types import SimpleNamespace

from scheduler import objects
from scheduler.logs import RateLimitedLogger
from scheduler.request.prefilters import PrefilterServices

NODE = "11111111-1111-1111-1111-111111111111"
AGG_A = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"
AGG_B = "bbbbbbbb-bbbb-bbbb-bbbb-bbbbbbbbbbbb"
AGG_C = "cccccccc-cccc-cccc-cccc-cccccccccccc"

SWITCHES = (
    "limit_tenants_to_placement_aggregate",
    "placement_aggregate_required_for_tenants",
    "query_placement_for_image_type_support",
    "enable_isolated_aggregate_filtering",
    "image_metadata_prefilter",
    "query_placement_for_routed_network_aggregates",
)


def make_conf(*on, limit=1000, disable_fallback=False):
    """Options as a new installation has them, with some switches of [scheduler] turned on."""
    switches = {name: name in on for name in SWITCHES}
    return SimpleNamespace(
        scheduler=SimpleNamespace(max_placement_results=limit, **switches),
        workarounds=SimpleNamespace(disable_fallback_pcpu_query=disable_fallback),
    )


def make_flavor(extra_specs=None, **fields):
    sizes = {"vcpus": 2, "memory_mb": 4096, "root_gb": 20, "ephemeral_gb": 0, "swap": 0}
    return objects.Flavor(name="base", flavorid="1", extra_specs=extra_specs or {}, **{**sizes, **fields})


def make_image(properties=None, **fields):
    return objects.ImageMeta(properties=objects.ImageMetaProps(**(properties or {})), **fields)


def make_spec(extra_specs=None, image=None, *, sizes=None, disk_format=None, **fields):
    """A RequestSpec; ``image`` are image properties, ``sizes`` replace those of the flavor."""
    formats = {"disk_format": disk_format} if disk_format is not None else {}
    defaults = {
        "flavor": make_flavor(extra_specs, **(sizes or {})),
        "image": make_image(image, **formats),
        "project_id": "p",
        "scheduler_hints": {},
        "requested_resources": [],
        "request_level_params": objects.RequestLevelParams(),
    }
    return objects.RequestSpec(**{**defaults, **fields})


def make_group(suffix, resources, *required, **fields):
    return objects.RequestGroup(
        requester_id=suffix, resources=resources, required_traits=set(required), **fields
    )


def make_level_params(**fields):
    return objects.RequestLevelParams(**fields)


def make_pci_requests(*requests):
    return objects.InstancePCIRequests(
        requests=[objects.InstancePCIRequest(**{"count": 1, "spec": [{}], **fields}) for fields in requests]
    )


def make_networks(*requests):
    return objects.NetworkRequestList(objects=[objects.NetworkRequest(**fields) for fields in requests])


class FakeNetwork:
    """Neutron as tables; remembers what it was asked."""

    def __init__(self, ports=None, networks=None, subnets=None):
        self.ports, self.networks, self.subnets = ports or {}, networks or {}, subnets or {}
        self.asked = []

    def port(self, context, port_id):
        self.asked.append(("port", port_id))
        return self._answer(self.ports[port_id])

    def segments_of_network(self, context, network_id):
        self.asked.append(("network", network_id))
        return self._answer(self.networks.get(network_id, []))

    def segment_of_subnet(self, context, subnet_id):
        self.asked.append(("subnet", subnet_id))
        return self._answer(self.subnets.get(subnet_id))

    @staticmethod
    def _answer(value):
        if isinstance(value, Exception):
            raise value
        return value


def make_services(conf=None, *, aggregates=(), version=73, network=None, provider_aggregates=None):
    return PrefilterServices(
        conf=conf or make_conf(),
        aggregates=lambda: aggregates,
        minimum_compute_version=lambda: version,
        network=network or FakeNetwork(),
        provider_aggregates=lambda _context, uuid: (provider_aggregates or {}).get(uuid, []),
        warnings=RateLimitedLogger(logging.getLogger("prefilters")),
    )


def required(spec):
    """What the pre-filters made the root require."""
    return spec.request_level_params.root_required


def forbidden(spec):
    return spec.request_level_params.root_forbidden
