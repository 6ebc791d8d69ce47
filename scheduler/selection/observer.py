"""What a decision reports to its observer, step by step, on the thread that decides.

Methods are called on the path of every request, so that they only note what they are given. What is passed
changes afterwards: whatever must stay as it is has to be copied.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from scheduler.filters.chain import Filtered, PreparedChain
from scheduler.hosts.coordinates import ViewIndex
from scheduler.hosts.view import HostView
from scheduler.objects import Selection
from scheduler.placement.answer import AllocationCandidate
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.narrowing import Narrowed
from scheduler.weights.scores import Scores


class DecisionObserver:
    """Ignores everything; the base of observers."""

    def begin_ranking(
        self, offered: HostView, narrowed: Narrowed, chain: PreparedChain, request: SchedulingRequest
    ) -> None:
        """Note the hosts that were offered, those that the request itself allows, and the filters.

        Called again if further hosts are asked for; what was noted before is void then.
        """

    def filtered(self, number: int, hosts: HostView, filtered: Filtered) -> None:
        """Note what the filters did with ``hosts`` for instance ``number`` of the request."""

    def weighed(
        self, number: int, hosts: HostView, scores: Scores, totals: np.ndarray, order: Iterator[int]
    ) -> None:
        """Note the weights of the hosts that passed, before one is chosen for instance ``number``.

        Args:
            order: Yields the indices of the hosts, largest totals first; it sorts as it is read.
        """

    def consumed(
        self, number: int, hosts: HostView, index: ViewIndex, candidate: AllocationCandidate | None
    ) -> None:
        """Note that a host was chosen for instance ``number``, and what the instance takes was charged.

        Args:
            candidate: What the instance claims; None: the request claims nothing.
        """

    def selected(self, selections: Sequence[Sequence[Selection]]) -> None:
        """Note the hosts and alternates of all instances."""


NO_OBSERVER = DecisionObserver()
