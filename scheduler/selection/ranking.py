"""Which hosts are left and which are best, kept up to date from instance to instance.

spec: filters-and-weighers 1.10, 1.11

The order of the hosts in the view never changes; what changes is which are left and what they weigh. Only
what the last choice touched is worked out again: its host, and all hosts if it settled the page sizes or NUMA
cells of the request, or if hosts have lost candidates that bear on others.
"""

from collections.abc import Iterator
from itertools import chain, islice, tee
import random
from typing import Any

import numpy as np
from oslo_log import log as logging

from scheduler.filters.chain import Filtered, PreparedChain
from scheduler.hosts.coordinates import ViewIndex, ViewPosition
from scheduler.hosts.view import HostView
from scheduler.numa.guest import carried_state
from scheduler.placement.answer import AllocationCandidate
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.narrowing import narrow
from scheduler.weights.scores import PreparedWeighers

LOG = logging.getLogger(f"nova.{__name__}")

# Hosts in a debug line; many clouds log at this level all the time.
SHOWN = 20

# Hosts that are sorted first. Conductors get two alternates, which have to be in the cell of the chosen host.
HEAD = 32


class DecisionObserver:
    """Is notified of a decision, on the thread that decides; the base of observers ignores everything.

    Its methods are on the path of every request, so that they only note what they are given. What is passed
    changes afterwards: whatever must stay as it is has to be copied.
    """

    def begin(self, ranking: "Ranking") -> None:
        """Note a ranking before filters judge its hosts; what was noted of an earlier one is void."""

    def ranked(self, ranking: "Ranking", totals: np.ndarray, order: Iterator[int]) -> None:
        """Note what filters and weighers say, before hosts are tried for an instance.

        Args:
            totals: The total weights of the hosts that are left; float64, shape (hosts,).
            order: Yields the indices of these hosts, largest totals first; it sorts as it is read.
        """

    def consumed(self, hosts: HostView, index: ViewIndex, candidate: AllocationCandidate | None) -> None:
        """Note that a host was chosen for an instance, and what the instance takes was charged.

        Args:
            candidate: What the instance claims; None: the request claims nothing.
        """


NO_OBSERVER = DecisionObserver()


class Ranking:
    """The hosts of one request, filtered and weighed for one instance after the other.

    Attributes:
        offered: The hosts as they come from Placement.
        narrowed: Those that the request itself allows, with what it has consumed of them.
        chain: The filters for them.
        number: The instance that is judged for, from 0; set before it is.
        filtered: What the filters did last; None if one has failed before.
        judged: What they did for which instance since the observer was notified.
        hosts: The hosts that are left.
        scores: Their raw weights.
        placed: For each instance that has a host, the UUID of its compute node and what it takes.
        refusals: Why Placement refused claims, by the UUID of the compute node.
        request: The request.
        observer: Is notified before filters judge, and before hosts are tried.
    """

    def __init__(
        self,
        chain: PreparedChain,
        weighers: PreparedWeighers,
        hosts: HostView,
        request: SchedulingRequest,
        options: Any,
        observer: DecisionObserver = NO_OBSERVER,
    ) -> None:
        """Narrow the hosts to those that the request allows, load what the rules need, and judge.

        All that a decision reads of databases is read here, after that it is a function of values in memory.
        Forced hosts are not filtered.

        Args:
            chain: The filters, prepared for the request.
            weighers: The weighers, prepared for the request.
            hosts: The hosts as they come from Placement.
            options: The group ``[filter_scheduler]``.
        """
        self.offered, self.narrowed = hosts, narrow(hosts, request)
        self.chain = chain if self.narrowed.filtered else PreparedChain(())
        if len(self.narrowed.hosts):
            self.narrowed.hosts.load(self.chain.needs | weighers.needs)
        self.number = 0
        self.filtered: Filtered | None = None
        self.judged: list[tuple[int, Filtered]] = []
        self.placed: dict[str, tuple[str, AllocationCandidate | None]] = {}
        self.refusals: dict[str, str] = {}
        self.request = request
        self._options = options
        self.observer = observer
        self._carried = carried_state(request.progress.guest)
        self._refused: set[ViewPosition] = set()
        self.hosts = self.narrowed.hosts
        observer.begin(self)  # a filter may fail
        self._filter(None)
        self.scores = weighers.scores(self.hosts)

    def __len__(self) -> int:
        return len(self.hosts)

    def refresh(self, changed: ViewIndex) -> None:
        """Judge again, after the host at index ``changed`` was consumed from."""
        before, self._carried = self._carried, carried_state(self.request.progress.guest)
        self._judge_again(self.hosts.positions[[changed]], only_these=self._carried == before)

    def refresh_pending(self) -> None:
        """Judge for the same instance once more, with what other requests have reserved meanwhile."""
        positions = self.hosts.refresh_pending()
        if len(positions):
            self._judge_again(positions, only_these=True)

    def _judge_again(self, positions: np.ndarray, *, only_these: bool) -> None:
        """Judge after the hosts at these positions of the root view have changed.

        Args:
            only_these: Whether nothing else has changed that verdicts on other hosts depend on.
        """
        changed = np.flatnonzero(np.isin(self.hosts.positions, positions))
        self.scores.keep(self._filter(changed if only_these and self._settled else None))
        self.scores.refresh(self.hosts, np.flatnonzero(np.isin(self.hosts.positions, positions)))

    def _filter(self, changed: np.ndarray | None) -> np.ndarray:
        offered = self._offered()
        # after a choice it is no first one, also for the first instance if its claim was refused
        index = max(self.number, int(bool(self.placed)))
        self.filtered = filtered = self.chain.run(self.hosts, index, changed)
        self.judged.append((self.number, filtered))
        self.hosts = filtered.hosts
        self._settled = self._offered().items() <= offered.items()
        self._log_filtered(filtered)
        return filtered.kept

    def _offered(self) -> dict[ViewPosition, int]:
        """Return how many candidates hosts have left, by position, if the loss of one can matter to others.

        Which is so if the guest has several NUMA cells: attempts go on from what was tried for the candidate
        before (spec: numa-and-pci 3.13).
        """
        if self._carried is None or len(self._carried) == 1:
            return {}
        hosts = self.hosts
        return {
            ViewPosition(int(at)): len(hosts.candidates(index)) for index, at in enumerate(hosts.positions)
        }

    def refuse(self, position: ViewPosition) -> None:
        """Move the host at this position of the root view to the end for the rest of the request.

        Called for a host that refused a claim.
        """
        self._refused.add(position)

    def best_first(self) -> Iterator[ViewIndex]:
        """Yield indices of the hosts in the order in which to try them, as ``_in_turn``."""
        totals = self.totals()
        order, noted = tee(descending(totals))
        self.observer.ranked(self, totals, noted)
        self.judged = []
        if len(totals) and LOG.isEnabledFor(logging.DEBUG):
            self._log_best(totals)
        yield from map(ViewIndex, self._in_turn(totals, order))

    def _in_turn(self, totals: np.ndarray, order: Iterator[int]) -> Iterator[int]:
        """Yield the indices of ``order``, largest totals first, as the options change it.

        The hosts that share the best total are shuffled if that is wanted. Then one of the first
        ``host_subset_size`` is picked at random and comes before the others.
        """
        if self._options.shuffle_best_same_weighed_hosts and len(totals):
            tied = np.flatnonzero(totals == totals.max()).tolist()
            order = chain(_shuffled(tied), islice(order, len(tied), None))
        head = list(islice(order, self._options.host_subset_size))
        if len(head) > 1:
            first = random.choice(head)
            head.remove(first)
            yield first
        yield from chain(head, order)

    def totals(self) -> np.ndarray:
        """Return each host's total, -inf for those that refused a claim; float64, shape (hosts,)."""
        totals = self.scores.totals()
        if self._refused:
            totals[np.isin(self.hosts.positions, list(self._refused))] = -np.inf
        return totals

    def _log_filtered(self, filtered: Filtered) -> None:
        if not LOG.isEnabledFor(logging.DEBUG):
            return
        for host, node, reason in filtered.reasons():
            LOG.debug("Rejected: %s (%s) %s", host, node, reason)
        if len(self.hosts):
            shown = self.hosts.at(range(len(self.hosts))[:SHOWN]).hosts()
            LOG.debug("Filtered [%s]%s", ", ".join(map(repr, shown)), self._rest())

    def _log_best(self, totals: np.ndarray) -> None:
        best = list(islice(descending(totals), SHOWN))
        shown = [f"WeighedHost [host: {self.hosts.host(i)!r}, weight: {totals[i]}]" for i in best]
        LOG.debug("Weighed [%s]%s", ", ".join(shown), self._rest())
        parts = self.scores.parts()
        for index in best:
            row = self.hosts.row(ViewIndex(index))
            added = ", ".join(f"{name} {part[index]:.6g}" for name, part in parts)
            LOG.debug("Weights of host %s (%s): %s", row.host, row.nodename, added or "none")

    def _rest(self) -> str:
        return f" and {len(self) - SHOWN} more" if len(self) > SHOWN else ""


def _shuffled(indices: list[int]) -> Iterator[int]:
    """Yield some indices in random order. Few of many are ever asked for, so others are not drawn."""
    for number in range(len(indices)):
        drawn = random.randrange(number, len(indices))
        indices[number], indices[drawn] = indices[drawn], indices[number]
        yield indices[number]


def descending(totals: np.ndarray) -> Iterator[int]:
    """Yield indices by total, largest first; equal totals keep their order. No total is NaN.

    Few of many hosts are ever asked for: so those below the best are sorted when they are.
    """
    if len(totals) <= HEAD:
        yield from np.argsort(-totals, kind="stable").tolist()
        return
    limit = np.partition(totals, -HEAD)[-HEAD]
    for compare in (np.greater, np.equal, np.less):
        indices = np.flatnonzero(compare(totals, limit))
        yield from indices[np.argsort(-totals[indices], kind="stable")].tolist()
