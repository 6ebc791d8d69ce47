"""The search of host cells for all cells of a guest.

The compute repeats the search when it claims, and its search has a state: results are cached by (host cell
id, *current* id of the guest cell), and the current id becomes that of the host cell on which the guest cell
was placed last. So a guest cell can get the result of another one. A build on a host that only a better
search would find fails on the compute, so this search has the same state. It only leaves out arrangements
that would repeat what an earlier arrangement did (spec: numa-and-pci 3.2, 3.5, 3.13, 3.14).

An arrangement lists, for each guest cell, the position of its host cell in the order in which host cells are
tried (spec: numa-and-pci 3.4). Arrangements are visited in lexicographic order.

Networks can be tied to host cells. A physical network that no cell of the host declares is near all of them;
the same holds for tunnels (spec: numa-and-pci 3.9).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from math import comb, perm

from scheduler.numa.cell import GuestCellState, may_fit, try_host_cell
from scheduler.numa.guest import GuestCell, GuestTopology
from scheduler.numa.topology import HostCell, HostTopology, Limits
from scheduler.pci.consumption import ChosenCells, PciRefusal, consume_devices
from scheduler.pci.offer import PciOffer


def next_arrangement(arrangement: list[int], pivot: int, host_cells: int) -> int | None:
    """Change an arrangement into the next one, in lexicographic order, that differs at ``pivot`` or before.

    Args:
        arrangement: Positions of host cells; changed in place.
        pivot: Index into ``arrangement``.

    Returns:
        The first index that was changed. None if there is no next arrangement; ``arrangement`` is then
        invalid.
    """
    used = set(arrangement[: pivot + 1])
    for index in range(pivot, -1, -1):
        used.discard(arrangement[index])
        following = (cell for cell in range(arrangement[index] + 1, host_cells) if cell not in used)
        changed = next(following, None)
        if changed is not None:
            arrangement[index] = changed
            used.add(changed)
            unused = (cell for cell in range(host_cells) if cell not in used)
            arrangement[index + 1 :] = [next(unused) for _ in arrangement[index + 1 :]]
            return index
    return None


def ordered_cells(
    host: HostTopology, guest: GuestTopology, offer: PciOffer | None, *, packing: bool
) -> tuple[HostCell, ...]:
    """Return the host cells in the order in which they are tried (spec: numa-and-pci 3.4).

    Free devices are compared first, then CPUs, then memory. Guests without PCI requests avoid cells with
    devices. Equal cells keep their stored order, as do all cells of a host with as many cells as the
    guest.

    Args:
        offer: The PCI devices of the host and the demands on them; None if it has no PCI data.
        packing: Whether used cells come first ([compute]packing_host_numa_cells_allocation_strategy).
    """
    if len(host.cells) == len(guest.cells):
        return host.cells
    devices = dict(offer.free_by_node) if offer else {}
    toward_devices = -1 if offer and offer.demands else 1
    spread = -1 if packing else 1
    pinned = guest.cells[0].has_pinned

    def sort_key(cell: HostCell) -> tuple[int, int, int]:
        used = -len(cell.free) if pinned else cell.cpu_usage
        return toward_devices * devices.get(cell.id, 0), spread * used, -spread * cell.free_memory

    return tuple(sorted(host.cells, key=sort_key))


# For each network of the guest that some host cell declares: the ids of these cells. The guest needs one of
# them.
Affinity = tuple[frozenset[int], ...]


def affinity(host: HostTopology, limits: Limits | None) -> Affinity:
    """Return, for each network of the guest that some cell declares, the ids of the cells that declare it."""
    if limits is None or limits.network is None:
        return ()
    tied = [(cell.id, cell.network) for cell in host.cells if cell.network]
    near = [
        frozenset(cell for cell, network in tied if name in network.physnets)
        for name in sorted(limits.network.physnets)
    ]
    if limits.network.tunneled:
        near.append(frozenset(cell for cell, network in tied if network.tunneled))
    return tuple(filter(None, near))


# Up to this number all arrangements are tried, as in nova (8 host cells and 4 guest cells have 1680, for
# which nova needs seconds). If there are more, shortcuts are tried first and the steps are limited.
EXHAUSTIVE = 2000
MAX_STEPS = 6000
# For all hosts of one request: some seconds, however many hosts differ from each other.
STEPS_PER_REQUEST = 1_000_000
# Left to each host when the steps of the request are used up: enough to find what is not hidden.
MIN_STEPS = 100
# A check of devices takes as long as one step for so many pools.
POOLS_PER_STEP = 32


class StepLimit(Enum):
    """The limit that ended a search."""

    HOST = "host"
    REQUEST = "request"


class SearchBudget:
    """The search steps that one request may use on all its hosts. For use in one thread.

    A host uses at most ``MAX_STEPS``. When the budget is used up, each further host is still searched with
    ``MIN_STEPS``.
    """

    def __init__(self, steps: int = STEPS_PER_REQUEST) -> None:
        self.left = steps

    @property
    def steps_for_next_host(self) -> int:
        """The steps that the next search may make."""
        return min(MAX_STEPS, max(self.left, MIN_STEPS))

    def spend(self, steps: int) -> None:
        self.left = max(0, self.left - steps)


@dataclass
class Search:
    """A search for one guest on one host.

    Attributes:
        cells: The host cells, in the order in which they are tried.
        affinity: The networks of the guest, as ``affinity`` returns them.
        offer: The PCI devices of the host and the demands on them; None if it has no PCI data.
        budget: The steps that the request has left.
        states: The guest cells as the search leaves them, successful or not.
        refused_devices: The last refusal of devices, and the host cells that were chosen then.
        far_from_networks: Whether networks refused host cells that have room.
        steps: The number of steps made: arrangements and checks of devices.
        cut_short: The limit that ended the search, None if it is complete.
    """

    host: HostTopology
    cells: Sequence[HostCell]
    guest: GuestTopology
    limits: Limits | None
    affinity: Affinity
    offer: PciOffer | None
    budget: SearchBudget = field(default_factory=SearchBudget)
    states: list[GuestCellState] = field(init=False)
    refused_devices: tuple[PciRefusal, ChosenCells] | None = None
    far_from_networks: bool = False
    steps: int = 0
    cut_short: StepLimit | None = None

    def __post_init__(self) -> None:
        self.states = [GuestCellState.of(cell) for cell in self.guest.cells]
        self._good: set[tuple[int, int]] = set()
        self._bad: set[tuple[int, int]] = set()
        self._sets: dict[frozenset[int], bool] = {}

    def run(self) -> bool:
        """Search host cells for the guest; return whether it fits."""
        max_steps = self.budget.steps_for_next_host
        fits = self._run(max_steps)
        self.budget.spend(self.steps)
        self._good, self._bad, self._sets = set(), set(), {}  # a search without result is kept for its reason
        return fits

    def _run(self, max_steps: int) -> bool:
        if perm(len(self.cells), len(self.states)) <= min(EXHAUSTIVE, max_steps):
            return self._try_arrangements(None)
        if self._too_few_cells() or self._lacks_devices():
            return False
        if _alike(self.guest):
            return self._try_combinations(max_steps)
        return self._try_arrangements(max_steps)

    def _too_few_cells(self) -> bool:
        kinds = {_needs(cell): cell for cell in self.guest.cells}.values()
        possible = sum(any(may_fit(host, cell, self.limits) for cell in kinds) for host in self.cells)
        return possible < len(self.states)

    def _lacks_devices(self) -> bool:
        """Return whether the pools cannot serve some request even if it is the only one, on any cells."""
        if self.offer is None:
            return False
        for number, demand in enumerate(self.offer.demands):
            alone = PciOffer(self.offer.nodes, self.offer.counts, self.offer.providers, (demand,))
            _, refusal = consume_devices(alone, ChosenCells())
            if refusal:
                self.refused_devices = PciRefusal(number, refusal.step, refusal.free), ChosenCells()
                return True
        return False

    def _try_arrangements(self, max_steps: int | None) -> bool:
        """Try the arrangements of host cells in order; all of them if ``max_steps`` is None."""
        arrangement, start = list(range(len(self.states))), 0
        while max_steps is None or (self.steps < max_steps and self._untried_sets()):
            self.steps += 1
            refused = self._try_arrangement(arrangement, start)
            if refused is None and self._accepted(frozenset(self.cells[cell].id for cell in arrangement)):
                return True
            settled = self._settled(arrangement, start, refused)
            pivot = len(arrangement) - 1
            if refused is not None and self._repeats(arrangement, settled, refused):
                pivot = refused
            changed = next_arrangement(arrangement, pivot, len(self.cells))
            if changed is None:
                return False
            start = min(settled, changed)
        self._note_cut(max_steps)
        return False

    def _note_cut(self, max_steps: int | None) -> None:
        if self._untried_sets():
            self.cut_short = StepLimit.HOST if max_steps == MAX_STEPS else StepLimit.REQUEST

    def _untried_sets(self) -> bool:
        """Return whether there is a set of host cells that devices and networks have not refused."""
        return len(self._sets) < comb(len(self.cells), len(self.states))

    def _try_arrangement(self, arrangement: list[int], start: int) -> int | None:
        """Try to place the guest cells from index ``start`` on; return the first that does not fit."""
        for index in range(start, len(arrangement)):
            host, guest = self.cells[arrangement[index]], self.states[index]
            key = (host.id, guest.id)
            if key in self._bad:
                return index
            if key in self._good:
                guest.id = host.id
                continue
            emulator_cpus = int(self.guest.isolated_emulator and index == 0)
            if try_host_cell(host, guest, self.limits, emulator_cpus):
                self._bad.add(key)
                return index
            self._good.add(key)
        return None

    def _settled(self, arrangement: list[int], start: int, refused: int | None) -> int:
        """Return how many guest cells, from the first on, another attempt would pass without any change."""
        passed = len(arrangement) if refused is None else refused
        while start < passed:
            host_id = self.cells[arrangement[start]].id
            if (host_id, host_id) not in self._good:
                break
            start += 1
        return start

    def _repeats(self, arrangement: list[int], settled: int, refused: int) -> bool:
        """Return whether every arrangement with the same beginning is refused at the same index."""
        if settled < refused:
            return False
        return (self.cells[arrangement[refused]].id, self.states[refused].id) in self._bad

    def _try_combinations(self, max_steps: int) -> bool:
        """Try sets of host cells for guest cells that are alike, where the order makes no difference."""
        hosts = [
            host
            for host in self.cells
            if try_host_cell(host, GuestCellState.of(self.guest.cells[0]), self.limits, 0) is None
        ]
        for chosen in combinations(hosts, len(self.states)):
            self.steps += 1
            if self._accepted(frozenset(host.id for host in chosen)):
                for host, guest in zip(chosen, self.states, strict=True):
                    try_host_cell(host, guest, self.limits, 0)
                return True
            if self.steps >= max_steps:
                self._note_cut(max_steps)
                return False
        return False

    def _accepted(self, chosen: frozenset[int]) -> bool:
        """Return whether devices and networks of the guest accept these host cells."""
        if chosen not in self._sets:
            self._sets[chosen] = self._has_devices(chosen) and self._near_networks(chosen)
        return self._sets[chosen]

    def _has_devices(self, chosen: frozenset[int]) -> bool:
        if self.offer is None or not self.offer.demands:
            return True
        self.steps += len(self.offer.nodes) * len(self.offer.demands) // POOLS_PER_STEP
        cells = ChosenCells(chosen, self.host.sockets)
        _, refusal = consume_devices(self.offer, cells)
        if refusal:
            self.refused_devices = refusal, cells
        return refusal is None

    def _near_networks(self, chosen: frozenset[int]) -> bool:
        near = not any(chosen.isdisjoint(cells) for cells in self.affinity)
        self.far_from_networks |= not near
        return near


def _needs(cell: GuestCell) -> tuple[int, int, int, int | None]:
    return cell.memory, len(cell.cpuset), len(cell.pcpuset), cell.pagesize


def _alike(guest: GuestTopology) -> bool:
    """Return whether a host cell has the same result for all guest cells. Their policies are always equal."""
    symbolic = any(cell.pagesize is not None and cell.pagesize < 0 for cell in guest.cells)
    return not symbolic and not guest.isolated_emulator and len({_needs(cell) for cell in guest.cells}) == 1
