"""What further hosts would bring: how many more instances of each flavor fit, and until when.

A further host is one of the cloud without its instances. Each flavor is counted alone. Devices and nested
providers count as far as they are free on that host: no database says what its instances leave there.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.operators.plan import forecast
from scheduler.operators.plan.capacity import Fit, fits, summed
from scheduler.operators.plan.moves import Document
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.requests import of_flavor

#: When instances of the size of a flavor were created (1) and deleted (-1).
Changes = Callable[[objects.Flavor], Sequence[tuple[datetime, int]]]


class NotOffered(BerthError):
    """Placement offers nothing of the host that others are to be like."""


def purchase(
    cloud: PlannedCloud,
    row: int,
    number: int,
    flavors: Iterable[objects.Flavor],
    changes: Changes,
    now: datetime,
) -> Document:
    """Return what so many hosts like that of a row would bring. That host is empty then.

    Args:
        changes: Returns the growth of the last days.

    Raises:
        NotOffered: The host has no free memory, so nothing is known of what it has.
    """
    flavors, host = list(flavors), cloud.host(row)
    if cloud.snapshot.table.rows[row].uuid not in cloud.snapshot.mirror.known:
        raise NotOffered(f"Placement offers no memory of {host}; name another host of its kind")
    before = {one.name: sum(fit.count for fit in _fits(cloud, one.name).values()) for one in flavors}
    on_it = cloud.snapshot.instances.on([row]).tolist()
    cloud.snapshot.load_requests(on_it)
    devices = sum(
        cloud.snapshot.requests.has_devices(int(cloud.snapshot.instances.specs[index]))
        for index in on_it
        if cloud.snapshot.instances.specs[index] >= 0
    )
    cloud.empty(row)
    cloud.open_only([row])
    return {
        "plan": "purchase",
        "like": host,
        "hosts": number,
        "instances_with_devices": devices,
        "flavors": [
            _flavor(one, number, before[one.name], _fits(cloud, one.name).get(row), changes(one), now)
            for one in flavors
        ],
    }


def _fits(cloud: PlannedCloud, flavor: str) -> dict[int, Fit]:
    try:
        return fits(cloud, of_flavor(cloud.snapshot, flavor))
    except BerthError:
        return {}


def _flavor(
    flavor: objects.Flavor,
    number: int,
    before: int,
    fit: Fit | None,
    changes: Sequence[tuple[datetime, int]],
    now: datetime,
) -> Document:
    more = 0 if fit is None else number * fit.count
    stranded = {} if fit is None else summed([fit])["stranded"]
    ends = [forecast.forecast(changes, left, now)["week"] for left in (before, before + more)]
    return {
        "flavor": flavor.name,
        "instances": before,
        "on_one_host": 0 if fit is None else fit.count,
        "more": more,
        "limit": "not offered by Placement" if fit is None else fit.limit,
        "stranded": {name: number * amount for name, amount in stranded.items()},
        "week": ends[0],
        "week_then": ends[1],
    }
