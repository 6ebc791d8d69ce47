"""What the rules on host aggregates share: one verdict for each distinct set of aggregates."""

from collections.abc import Callable
from typing import Any

import numpy as np

from scheduler.filters.base import HostFilter
from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView

Judge = Callable[[AggregateSet], str]


class AggregateRule(HostFilter):
    """A filter that looks at a host's aggregates and at nothing else of it."""

    run_filter_once_per_request = True

    def judge(self, request: Any) -> Judge:
        """A function that says what speaks against a set of aggregates; empty if nothing does.

        What depends on the request alone is worked out here, once.
        """
        raise NotImplementedError

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        objection = self.judge(request)
        return hosts.coded("aggregates").spread(lambda aggregates: not objection(aggregates))

    def reason(self, host: HostState, request: Any) -> str:
        return self.judge(request)(AggregateSet(host.aggregates))
