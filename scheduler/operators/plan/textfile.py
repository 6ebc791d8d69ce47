"""The capacity for each flavor, as a text file for node-exporter."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, generate_latest

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.operators.plan.capacity import Fit, fits, summed
from scheduler.operators.plan.moves import Document
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import of_flavor


def capacities(cloud: PlannedCloud, flavors: Iterable[objects.Flavor]) -> list[Document]:
    """Return for each flavor and zone how many fit and what is stranded, and the headroom of each flavor.

    The headroom is how many more fit after the loss of any one host: what fits without the host that matters
    most, less its instances in units of the flavor.
    """
    flavors = list(flavors)
    found: list[Document] = []
    for done, flavor in enumerate(flavors):
        cloud.snapshot.progress("flavors", done, len(flavors))
        try:
            counts = fits(cloud, of_flavor(cloud.snapshot, flavor.name))
        except BerthError as error:
            found.append({"flavor": flavor.name, "zones": [], "headroom": 0, "reason": str(error)})
            continue
        zones: dict[str, list[Fit]] = {}
        for row, fit in counts.items():
            zones.setdefault(cloud.snapshot.zone(row), []).append(fit)
        found.append(
            {
                "flavor": flavor.name,
                "zones": [
                    {
                        "zone": zone,
                        "instances": sum(fit.count for fit in each),
                        "stranded": summed(each)["stranded"],
                    }
                    for zone, each in sorted(zones.items())
                ],
                "headroom": _headroom(cloud, flavor, counts),
                "reason": "",
            }
        )
    return found


def _headroom(cloud: PlannedCloud, flavor: objects.Flavor, counts: dict[int, Fit]) -> int:
    numbers = cloud.snapshot.table.numbers
    total = sum(fit.count for fit in counts.values())
    memory = numbers["total_usable_ram_mb"] - numbers["free_ram_mb"]
    worst = 0
    for row in range(len(cloud.snapshot.table)):
        there = max(
            -(-int(memory[row]) // max(flavor.memory_mb, 1)),
            -(-int(numbers["vcpus_used"][row]) // max(flavor.vcpus, 1)),
        )
        fit = counts.get(row)
        worst = max(worst, there + (0 if fit is None else fit.count))
    return max(0, total - worst)


def write(path: str, found: Iterable[Document]) -> None:
    """Write what ``capacities`` found to a file that everyone can read, in one step.

    Raises:
        OSError: It cannot be written.
    """
    new = Path(f"{path}.new")
    new.write_text(text(found))
    new.chmod(0o644)
    new.replace(path)


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
    for one in found:
        headroom.labels(one["flavor"]).set(one["headroom"])
        for zone in one["zones"]:
            instances.labels(one["flavor"], zone["zone"]).set(zone["instances"])
            for name, amount in zone["stranded"].items():
                stranded.labels(one["flavor"], zone["zone"], name).set(amount)
    return generate_latest(registry).decode()
