"""Which allocation candidates of a host a guest with a NUMA topology can use.

spec: numa-and-pci 3.13, 4.7, 5.1
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from scheduler.numa.fit import Fitter
from scheduler.numa.guest import DEDICATED, REQUIRE, GuestTopology
from scheduler.numa.topology import HostTopology, Limits
from scheduler.pci.offer import Mappings
from scheduler.pci.pools import PoolSet
from scheduler.pci.requests import PciRequest
from scheduler.pci.support import UsableCandidates


def usable_candidates(
    fitter: Fitter,
    host: HostTopology | None,
    guest: GuestTopology,
    limits: Limits | None,
    pools: PoolSet | None,
    requests: tuple[PciRequest, ...],
    mappings: Sequence[Mappings | None],
) -> UsableCandidates:
    """Try each candidate (one entry of ``mappings`` each) against the same host.

    Page sizes that one attempt made definite stay so for the next, as they do in nova.
    """
    accepted, reason = [], "no allocation candidate is left"
    current = guest
    for index, mapping in enumerate(mappings):
        result = fitter.fit(host, current, limits, pools, requests, mapping)
        current = _carried(guest, result.guest_after)
        if result:
            accepted.append(index)
        elif index == 0:
            reason = result.reason
    return UsableCandidates(tuple(accepted), "" if accepted else reason)


def _carried(guest: GuestTopology, after: GuestTopology) -> GuestTopology:
    """What the next attempt starts from.

    A single cell's id and pins have no influence on it; left as they were, the next attempt is one that is
    remembered already.
    """
    if len(guest.cells) > 1:
        return after
    return guest.with_cells((replace(guest.cells[0], pagesize=after.cells[0].pagesize),))


def lacks_threads(
    host: HostTopology | None, cpu_policies: Iterable[str | None], thread_policies: Iterable[str | None]
) -> bool:
    """The early check: dedicated CPUs and thread siblings are asked for, and the host has no siblings.

    The policies are the raw values of flavor (hw:cpu_policy, hw:cpu_thread_policy) and image. Applies to
    guests without NUMA topology too, but not to hosts without.
    """
    if host is None or not host.cells or host.has_threads:
        return False
    return DEDICATED in cpu_policies and REQUIRE in thread_policies
