"""What a selection takes from its host for the rest of the request.

spec: numa-and-pci 3.12, 6.2
"""

from dataclasses import dataclass, replace

from scheduler.numa.errors import PinConflict
from scheduler.numa.fit import Fitter
from scheduler.numa.guest import GuestTopology
from scheduler.numa.limits import Limits
from scheduler.numa.topology import HostTopology
from scheduler.numa.usage import consume
from scheduler.pci.offer import Mappings
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest
from scheduler.pci.taking import Place
from scheduler.pci.verdict import apply


@dataclass(frozen=True)
class Charged:
    """Host and guest after a selection.

    ``guest`` replaces the topology of the request for all further instances, on all hosts. With a ``problem``
    the rest was not charged; the selection stands all the same.
    """

    host: HostTopology | None
    pools: PoolSet | None
    guest: GuestTopology | None
    problem: str = ""


def charge(
    fitter: Fitter,
    host: HostTopology | None,
    guest: GuestTopology | None,
    limits: Limits | None,
    pools: PoolSet | None,
    requests: tuple[PciRequest, ...] | None,
    mappings: Mappings | None,
) -> Charged:
    """Charge one instance. ``requests`` None: the request has no PCI requests object at all.

    ``limits`` are those that the NUMA filter stored for the host, None if it did not run; ``mappings`` the
    claimed candidate's providers by placement group, None if the request has no groups.
    """
    if requests is None or pools is None:
        requests = ()
    before = Charged(host, pools, guest)
    after = _charge_topology(fitter, before, limits, requests, mappings)
    if after.problem or not requests:
        return after
    return _charge_devices(after, requests, mappings)


def _charge_topology(
    fitter: Fitter,
    before: Charged,
    limits: Limits | None,
    requests: tuple[PciRequest, ...],
    mappings: Mappings | None,
) -> Charged:
    # Free devices have a say in the order of cells, even if the guest wants none.
    host, guest = before.host, before.guest
    if host is None or not host.cells or guest is None:
        return before
    found = fitter.fit(host, guest, limits, before.pools, requests, mappings)
    after = replace(before, guest=found.fitted)
    if not found:
        return after
    try:
        return replace(after, host=consume(host, found.fitted))
    except PinConflict as conflict:
        return replace(after, problem=str(conflict))


def _charge_devices(before: Charged, requests: tuple[PciRequest, ...], mappings: Mappings | None) -> Charged:
    # On a host without topology the guest's own cell ids stand in for host cells, as they do in nova.
    cells = before.guest.cell_ids if before.guest else frozenset()
    sockets = before.host.sockets if before.host else None
    applied = apply(before.pools, requests, mappings, Place(cells, sockets))
    return replace(before, pools=applied.pools, problem=applied.reason)
