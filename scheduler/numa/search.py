"""Finding host cells for all cells of a guest.

The compute searches again when it claims, and its search has a memory: verdicts are remembered by
(host cell, *current* id of the guest cell), and an id changes to that of the host cell on which the
guest cell last succeeded. Guest cells can thus inherit each other's verdicts. A host that only a better
search would find is a failed build, so this search has the same memory. It differs in leaving out
arrangements that are bound to repeat what an earlier one did.

spec: numa-and-pci 3.2, 3.5, 3.13, 3.14

Ways to pick k of n host cells in order, one after the other, with the means to leave many out at once.

In which order a host's cells are tried.

spec: numa-and-pci 3.4

Networks that an operator tied to host cells.

A physical network that no cell declares is near everywhere; so are tunnels that no cell declares.

spec: numa-and-pci 3.9
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import comb, perm

from scheduler.numa.cell import GuestCellState, may_fit, seat_on
from scheduler.numa.guest import GuestCell, GuestTopology
from scheduler.numa.topology import HostCell, HostTopology, Limits
from scheduler.pci.consumption import ChosenCells, Refusal, consume_devices
from scheduler.pci.offer import Offer


def first(chosen: int) -> list[int]:
    return list(range(chosen))


def advance(places: list[int], pivot: int, n: int) -> int | None:
    """Make ``places`` the next arrangement, in lexicographic order, that differs at ``pivot`` or before.

    Positions after the one that changes start anew with the smallest. Returns the first changed position, or
    None (and leaves ``places`` undefined) when there is no next one.
    """
    used = set(places[: pivot + 1])
    for position in range(pivot, -1, -1):
        used.discard(places[position])
        following = next((place for place in range(places[position] + 1, n) if place not in used), None)
        if following is not None:
            places[position] = following
            used.add(following)
            unused = (place for place in range(n) if place not in used)
            places[position + 1 :] = [next(unused) for _ in places[position + 1 :]]
            return position
    return None


def ordered_cells(
    host: HostTopology, guest: GuestTopology, offer: Offer | None, *, packing: bool
) -> tuple[HostCell, ...]:
    """Host cells, most wanted first; ties keep stored order, and so do hosts with as many cells as the guest.

    Free devices come before CPUs, and CPUs before memory. Guests without PCI requests avoid devices, wanted
    or not. ``packing`` fills used cells first ([compute]packing_host_numa_cells_allocation_strategy).
    """
    if len(host.cells) == len(guest.cells):
        return host.cells
    devices = dict(offer.free_by_node) if offer else {}
    toward_devices = -1 if offer and offer.demands else 1
    spread = -1 if packing else 1
    pinned = guest.cells[0].has_pinned

    def wanted(cell: HostCell) -> tuple[int, int, int]:
        used = -len(cell.free) if pinned else cell.cpu_usage
        return toward_devices * devices.get(cell.id, 0), spread * used, -spread * cell.free_memory

    return tuple(sorted(host.cells, key=wanted))


# The cells of which a guest must have at least one, for each network that ties it down.
Affinity = tuple[frozenset[int], ...]


def affinity(host: HostTopology, limits: Limits | None) -> Affinity:
    """For each of the guest's networks that some cell declares: the ids of the cells that do."""
    if limits is None or limits.network is None:
        return ()
    near = [_declaring(host, name) for name in sorted(limits.network.physnets)]
    if limits.network.tunneled:
        near.append(_ids(cell for cell in host.cells if cell.network and cell.network.tunneled))
    return tuple(filter(None, near))


def _declaring(host: HostTopology, physnet: str) -> frozenset[int]:
    return _ids(cell for cell in host.cells if cell.network and physnet in cell.network.physnets)


def _ids(cells: Iterable[HostCell]) -> frozenset[int]:
    return frozenset(cell.id for cell in cells)


# Up to here every arrangement is tried, as nova would (8 host cells and 4 guest cells have 1680). nova needs
# seconds for as many; above it, shortcuts come first and the effort is bounded.
EXHAUSTIVE = 2000
MAX_EFFORT = 6000
# A check of devices costs about as much as an arrangement for every so many pools that a request looks at.
POOLS_PER_STEP = 32


@dataclass
class Search:
    """One guest on one host. Afterwards ``seats`` hold the state of the guest cells, found or not.

    ``cells`` are in the order in which they are to be tried. ``refused_devices`` is the last refusal of
    devices and where it was, ``far_from_networks`` whether networks refused cells that would have done.
    """

    cells: Sequence[HostCell]
    guest: GuestTopology
    limits: Limits | None
    affinity: Affinity
    offer: Offer | None
    sockets: tuple[tuple[int, int | None], ...]
    seats: list[GuestCellState] = field(init=False)
    refused_devices: tuple[Refusal, ChosenCells] | None = None
    far_from_networks: bool = False
    effort: int = 0
    gave_up: bool = False

    def __post_init__(self) -> None:
        self.seats = [GuestCellState.of(cell) for cell in self.guest.cells]
        self._good: set[tuple[int, int]] = set()
        self._bad: set[tuple[int, int]] = set()
        self._sets: dict[frozenset[int], bool] = {}

    def run(self) -> bool:
        """Does the guest fit?"""
        if perm(len(self.cells), len(self.seats)) <= EXHAUSTIVE:
            return self._arrange(None)
        if self._hopeless():
            return False
        if _alike(self.guest):
            return self._combine()
        return self._arrange(MAX_EFFORT)

    def _hopeless(self) -> bool:
        """Can it be seen without a search that there is no fit?"""
        return self._too_few_cells() or self._lacks_devices()

    def _too_few_cells(self) -> bool:
        kinds = {_needs(cell): cell for cell in self.guest.cells}.values()
        possible = sum(any(may_fit(host, cell, self.limits) for cell in kinds) for host in self.cells)
        return possible < len(self.seats)

    def _lacks_devices(self) -> bool:
        """A single request must be met by the untouched pools, wherever they are."""
        for number, demand in enumerate(self.offer.demands if self.offer else ()):
            alone = Offer(self.offer.nodes, self.offer.counts, self.offer.providers, (demand,))
            _, refusal = consume_devices(alone, ChosenCells())
            if refusal:
                self.refused_devices = Refusal(number, refusal.step, refusal.free), ChosenCells()
                return True
        return False

    def _arrange(self, max_effort: int | None) -> bool:
        """Walk through the arrangements of host cells in order."""
        places, start = first(len(self.seats)), 0
        while max_effort is None or (self.effort < max_effort and self._sets_left()):
            self.effort += 1
            refused = self._walk(places, start)
            if refused is None and self._acceptable(frozenset(self.cells[place].id for place in places)):
                return True
            settled = self._settled(places, start, refused)
            pivot = refused if self._repeats(places, settled, refused) else len(places) - 1
            changed = advance(places, pivot, len(self.cells))
            if changed is None:
                return False
            start = min(settled, changed)
        self.gave_up = self._sets_left()
        return False

    def _sets_left(self) -> bool:
        """Is there a set of host cells that devices and networks have not refused?"""
        return len(self._sets) < comb(len(self.cells), len(self.seats))

    def _walk(self, places: list[int], start: int) -> int | None:
        """Seat the guest cells one by one; the position of the first that does not fit."""
        for position in range(start, len(places)):
            host, seat = self.cells[places[position]], self.seats[position]
            key = (host.id, seat.id)
            if key in self._bad:
                return position
            if key in self._good:
                seat.id = host.id
                continue
            overhead = int(self.guest.isolated_emulator and position == 0)
            if seat_on(host, seat, self.limits, overhead):
                self._bad.add(key)
                return position
            self._good.add(key)
        return None

    def _settled(self, places: list[int], start: int, refused: int | None) -> int:
        """How many leading positions another walk over the same places would pass and change nothing."""
        passed = len(places) if refused is None else refused
        while start < passed and (self.cells[places[start]].id, self.cells[places[start]].id) in self._good:
            start += 1
        return start

    def _repeats(self, places: list[int], settled: int, refused: int | None) -> bool:
        """Would every arrangement with the same beginning be refused at the same position?"""
        if refused is None or settled < refused:
            return False
        return (self.cells[places[refused]].id, self.seats[refused].id) in self._bad

    def _combine(self) -> bool:
        """For guest cells that are alike, which of them is on which host cell makes no difference."""
        hosts = [
            host
            for host in self.cells
            if seat_on(host, GuestCellState.of(self.guest.cells[0]), self.limits, 0) is None
        ]
        for chosen in combinations(hosts, len(self.seats)):
            self.effort += 1
            if self._acceptable(frozenset(host.id for host in chosen)):
                for host, seat in zip(chosen, self.seats, strict=True):
                    seat_on(host, seat, self.limits, 0)
                return True
            if self.effort >= MAX_EFFORT:
                self.gave_up = True
                return False
        return False

    def _acceptable(self, chosen: frozenset[int]) -> bool:
        """Are the devices and networks that the guest wants near these host cells?"""
        if chosen not in self._sets:
            self._sets[chosen] = self._has_devices(chosen) and self._near_networks(chosen)
        return self._sets[chosen]

    def _has_devices(self, chosen: frozenset[int]) -> bool:
        if self.offer is None or not self.offer.demands:
            return True
        self.effort += len(self.offer.nodes) * len(self.offer.demands) // POOLS_PER_STEP
        place = ChosenCells(chosen, self.sockets)
        _, refusal = consume_devices(self.offer, place)
        if refusal:
            self.refused_devices = refusal, place
        return refusal is None

    def _near_networks(self, chosen: frozenset[int]) -> bool:
        near = not any(chosen.isdisjoint(cells) for cells in self.affinity)
        self.far_from_networks |= not near
        return near


def _needs(cell: GuestCell) -> tuple[int, int, int, int | None]:
    return cell.memory, len(cell.cpuset), len(cell.pcpuset), cell.pagesize


def _alike(guest: GuestTopology) -> bool:
    """Does the verdict on a host cell not depend on which guest cell is tried? Policies always agree."""
    symbolic = any(cell.pagesize is not None and cell.pagesize < 0 for cell in guest.cells)
    return not symbolic and not guest.isolated_emulator and len({_needs(cell) for cell in guest.cells}) == 1
