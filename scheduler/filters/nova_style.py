"""What operators' filters find under nova's names where there is no nova (spec: filters-and-weighers 1.3).

These have nova's methods and nothing else, as a class of somebody else's may use any further name for itself.
``ForeignFilter`` runs what derives from them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from scheduler.filters import builtin


class BaseFilter:
    """A filter that keeps every host."""

    run_filter_once_per_request = False

    def run_filter_for_index(self, index: int) -> bool:
        """Whether to ask for instance number ``index`` of the request."""
        return index == 0 or not self.run_filter_once_per_request

    def _filter_one(self, obj: Any, spec_obj: Any) -> bool:
        return True

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterator[Any] | None:
        """Those to keep, in order. An override may return None: none, and ask no further filter."""
        return (obj for obj in filter_obj_list if self._filter_one(obj, spec_obj))


class BaseHostFilter(BaseFilter):
    """A filter that looks at one host after the other: implement ``host_passes``."""

    RUN_ON_REBUILD = False

    def _filter_one(self, obj: Any, spec_obj: Any) -> bool:
        if request_is_rebuild(spec_obj) and not self.RUN_ON_REBUILD:
            return True
        return self.host_passes(obj, spec_obj)

    def host_passes(self, host_state: Any, filter_properties: Any) -> bool:
        """Truthy keeps the host."""
        raise NotImplementedError


class CandidateFilterMixin:
    """For filters that look at a host's allocation candidates."""

    def filter_candidates(self, host_state: Any, filter_func: Callable[[Any], bool]) -> list[Any]:
        """Leave the host the candidates that are accepted, be it none, and return them."""
        host_state.allocation_candidates = [c for c in host_state.allocation_candidates if filter_func(c)]
        return host_state.allocation_candidates


def all_filters() -> list[type]:
    """The built-in filters."""
    return list(builtin.ALL)


def request_is_rebuild(spec_obj: Any) -> bool:
    """Whether a request, if any, is the check of a rebuild."""
    return spec_obj is not None and spec_obj.is_rebuild
