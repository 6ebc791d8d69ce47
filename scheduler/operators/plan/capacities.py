"""The capacity for each flavor, and the same as metrics."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.operators.plan.capacity import Fit, fits, summed
from scheduler.operators.plan.loss import Headroom, Losses
from scheduler.operators.plan.moves import Document
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import of_flavor

NO_HEADROOM = Headroom()


def capacities(cloud: PlannedCloud, flavors: Iterable[objects.Flavor]) -> list[Document]:
    """Return for each flavor and zone how many fit, what is stranded, and how many fit after a loss."""
    flavors = list(flavors)
    found: dict[str, dict[int, Fit]] = {}
    reasons: dict[str, str] = {}
    for done, flavor in enumerate(flavors):
        cloud.snapshot.progress("flavors", done, len(flavors))
        try:
            found[flavor.name] = fits(cloud, of_flavor(cloud.snapshot, flavor.name))
        except BerthError as error:
            reasons[flavor.name] = str(error)
    cloud.snapshot.load_requests(range(len(cloud.snapshot.instances)))
    headrooms = Losses(cloud, found).headrooms()
    return [
        {
            "flavor": flavor.name,
            "zones": list(_zones(cloud, found.get(flavor.name, {}), headrooms.get(flavor.name, NO_HEADROOM))),
            "headroom": headrooms.get(flavor.name, NO_HEADROOM).instances,
            "worst_loss": headrooms.get(flavor.name, NO_HEADROOM).host,
            "reason": reasons.get(flavor.name, ""),
        }
        for flavor in flavors
    ]


def _zones(cloud: PlannedCloud, counts: Mapping[int, Fit], headroom: Headroom) -> Iterator[Document]:
    zones: dict[str, list[Fit]] = {}
    for row, fit in counts.items():
        zones.setdefault(cloud.snapshot.zone(row), []).append(fit)
    for zone, each in sorted(zones.items()):
        yield {
            "zone": zone,
            "instances": sum(fit.count for fit in each),
            "headroom": headroom.of_zone[zone],
            "stranded": summed(each)["stranded"],
        }


def text(found: Iterable[Document]) -> str:
    """Return what ``capacities`` found in the text format of Prometheus."""
    registry = CollectorRegistry()
    gauge: Callable[..., Any] = Gauge
    instances = gauge(
        "berth_capacity_instances", "Instances that still fit", ("flavor", "zone"), registry=registry
    )
    words = "What is left of a resource class when no further instance fits"
    stranded = gauge(
        "berth_capacity_stranded", words, ("flavor", "zone", "resource_class"), registry=registry
    )
    words = "Instances that still fit after the loss of any one host"
    headroom = gauge("berth_capacity_headroom_instances", words, ("flavor",), registry=registry)
    words = "Instances that still fit in a zone after the loss of any one host"
    of_zone = gauge("berth_capacity_zone_headroom_instances", words, ("flavor", "zone"), registry=registry)
    for one in found:
        headroom.labels(one["flavor"]).set(one["headroom"])
        for zone in one["zones"]:
            instances.labels(one["flavor"], zone["zone"]).set(zone["instances"])
            of_zone.labels(one["flavor"], zone["zone"]).set(zone["headroom"])
            for name, amount in zone["stranded"].items():
                stranded.labels(one["flavor"], zone["zone"], name).set(amount)
    return generate_latest(registry).decode()
