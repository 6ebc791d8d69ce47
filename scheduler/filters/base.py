"""What a filter is: a rule in two steps.

First ``prepare`` reads the request, once, and returns a judge, or None if the rule does not apply to the
request. Then the judge gives its verdict on the hosts, for one instance of the request after the other, and
says why a host was rejected; both come from the same prepared state. A filter is shared by concurrent
requests and keeps nothing of any of them. A judge belongs to one request.

What a judge must know beyond the table of hosts is declared in ``needs`` and loaded before the chain runs.
Neither ``passes`` nor ``reason`` does I/O.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.objects import RequestSpec
from scheduler.request.scheduling_request import SchedulingRequest


class Judge:
    """The verdicts of a rule on hosts for one request: two functions, or a class with these methods.

    What changes while hosts are chosen (current instance, group hosts, settled guest topology) is read from
    ``request.progress`` whenever it is needed; everything else was read by ``prepare``.

    Attributes:
        instance_uuids: Instances whose hosts the judge reads from the view. They are located before the chain
            runs if the filter needs ``"instances"``.
    """

    instance_uuids: Collection[str] = ()

    def __init__(
        self,
        passes: Callable[[HostView], np.ndarray | None] | None = None,
        reason: Callable[[HostState], str] | None = None,
        instance_uuids: Collection[str] = (),
    ) -> None:
        given = {"passes": passes, "reason": reason, "instance_uuids": instance_uuids}
        vars(self).update({name: value for name, value in given.items() if value})

    def passes(self, hosts: HostView) -> np.ndarray | None:
        """Return which hosts may have the instance.

        Returns:
            bool, shape (hosts,). None: no host, and no further filter is to run.
        """
        raise NotImplementedError

    def reason(self, host: HostState) -> str:
        """Return why a host was rejected, in a few words without the filter's name.

        Called for hosts that ``passes`` has rejected, and only if the reason is logged or explained
        (spec: filters-and-weighers 5.4).
        """
        return "rejected"


class HostFilter:
    """A rule over all hosts at once (array style).

    Classes of operators may derive from this, from ``BaseHostFilter``, or from nova's.

    Attributes:
        RUN_ON_REBUILD: Whether the rule judges rebuild checks; others let every host of one pass.
        run_filter_once_per_request: Judge for the first instance of a request only.
        local: A host's verdict depends on that host and the request alone, so that after a choice only the
            chosen host is judged again. False if a choice elsewhere, or the uuid of the instance, can change
            the verdict.
        needs: What is loaded before the chain runs: ``"instances"`` (the hosts of the judge's
            ``instance_uuids``), ``"image_properties"`` (those of the instances on each host).
    """

    RUN_ON_REBUILD = False
    run_filter_once_per_request = False
    local = True
    needs: frozenset[str] = frozenset()

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self.conf: Any = conf

    @property
    def name(self) -> str:
        """The class name, which is how operators know the filter."""
        return type(self).__name__

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether to judge for instance number ``index`` of the request."""
        return index == 0 or not self.run_filter_once_per_request

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        """Return a judge for the request; None if the rule does not apply to it, so that all hosts pass.

        Called once a request, before the hosts are known. Whatever is raised here is raised again when
        hosts reach the rule, and ends the request then.
        """
        raise NotImplementedError


class BaseFilter:
    """A filter as nova's are, which keeps every host; nova's base class where nova is not installed.

    This class and the next have nova's methods and nothing else (spec: filters-and-weighers 1.3), as an
    operator's class may use any further name for itself.
    """

    run_filter_once_per_request = False

    def run_filter_for_index(self, index: int) -> bool:
        """Return whether to judge for instance number ``index`` of the request."""
        return index == 0 or not self.run_filter_once_per_request

    def _filter_one(self, obj: HostState, spec_obj: RequestSpec | None) -> bool:
        return True

    def filter_all(
        self, filter_obj_list: Iterable[HostState], spec_obj: RequestSpec | None
    ) -> Iterator[HostState] | None:
        """Yield those to keep, in order.

        An override may return None: no host is kept, and no further filter runs.
        """
        return (obj for obj in filter_obj_list if self._filter_one(obj, spec_obj))


class BaseHostFilter(BaseFilter):
    """A rule that is called for each host: implement ``host_passes``.

    Slower than array style by orders of magnitude, with the same outcome.
    """

    RUN_ON_REBUILD = False

    def _filter_one(self, obj: HostState, spec_obj: RequestSpec | None) -> bool:
        if request_is_rebuild(spec_obj) and not self.RUN_ON_REBUILD:
            return True
        return self.host_passes(obj, spec_obj)

    def host_passes(self, host_state: HostState, filter_properties: RequestSpec | None) -> bool:
        """Return whether the host may have the instance."""
        raise NotImplementedError


def request_is_rebuild(spec_obj: RequestSpec | None) -> bool:
    """Return whether a RequestSpec, if there is one, is that of a rebuild check."""
    return spec_obj is not None and spec_obj.is_rebuild


def all_pass(hosts: HostView) -> np.ndarray:
    """Return the verdict of a rule without objection: all true, shape (hosts,)."""
    return np.ones(len(hosts), dtype=bool)
