"""Other failure domains than those of the other members of a server group.

Name, hint and metadata key are those of the filter that the project nova-scheduler-filters publishes.
"""

import numpy as np
from oslo_utils import strutils

from scheduler.filters.base import HostFilter, Judge, JudgeOf
from scheduler.hosts.failure_domains import apart_from
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest

HINT = "different_failure_domain"
EXTRA_SPEC = f"berth:{HINT}"


class FailureDomainFilter(HostFilter):
    """Hint or extra spec ``different_failure_domain``: each member of a server group in a domain of its own.

    The hint counts if both are there. ``[berth] failure_domain_key`` is the key of aggregate metadata that
    names the domain of a host; hosts without one are rejected. Where the instance itself is does not matter,
    so it may be resized within its domain. Members on hosts without a domain are in no one's way.
    """

    of_berth = True
    local = False
    needs = frozenset({"instances"})

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        group = request.server_group
        if group is None or not wants_other_domains(request):
            return None
        members, key = tuple(dict.fromkeys(group.members)), self.conf.berth.failure_domain_key

        def passes(hosts: HostView) -> np.ndarray:
            others = [uuid for uuid in members if uuid != request.progress.instance_uuid]
            return apart_from(hosts, key, others)

        def reason(host: HostState) -> str:
            domains = sorted({one.metadata[key] for one in host.aggregates if key in one.metadata})
            if not domains:
                return f"host is in no aggregate with {key}"
            return f"members of group {group.text} in {key} {', '.join(domains)}"

        return JudgeOf(passes, reason, members)


def wants_other_domains(request: SchedulingRequest) -> bool:
    """Return whether the request says that the members of its group be in different domains."""
    wanted = request.hint(HINT)
    return strutils.bool_from_string(request.extra_specs.get(EXTRA_SPEC) if wanted is None else wanted)
