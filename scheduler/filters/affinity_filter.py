"""Near or far from other instances, from a network address, or from the other members of a server group.

Members may have to be apart in their failure domains too. Name, hint and metadata key of that rule are those
of the filter that the project nova-scheduler-filters publishes.

spec: filters-and-weighers 2.7-2.10
"""

from functools import lru_cache
import ipaddress

import netaddr
import numpy as np
from oslo_utils import strutils

from scheduler.errors import faults_of_request
from scheduler.filters.base import HostFilter, Judge, all_pass
from scheduler.hosts.failure_domains import apart_from
from scheduler.hosts.host_state import HostState, instances_held
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest

INSTANCES = frozenset({"instances"})
OTHER_DOMAIN = "different_failure_domain"


class _InstancesOfHint(HostFilter):
    """Looks for the instances that a scheduler hint names; they need not exist, nor be the requester's."""

    run_filter_once_per_request = True
    needs = INSTANCES
    hint = ""

    def uuids(self, request: SchedulingRequest) -> tuple[str, ...]:
        """Return the instances that the hint names; one text, or a list of them."""
        named = request.hint(self.hint)
        return (named,) if isinstance(named, str) and named else tuple(named or ())


class DifferentHostFilter(_InstancesOfHint):
    """Hint ``different_host``: only hosts that hold none of these instances."""

    hint = "different_host"

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        uuids = self.uuids(request)
        if not uuids:
            return None

        def reason(host: HostState) -> str:
            held = instances_held(host, uuids)
            return f"holds instance {held[0]}" if held else "rejected"

        return Judge(lambda hosts: hosts.count_instances(uuids) == 0, reason, uuids)


class SameHostFilter(_InstancesOfHint):
    """Hint ``same_host``: only hosts that hold any one of these instances.

    Not all of them, although nova's manual says so.
    """

    hint = "same_host"

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        uuids = self.uuids(request)
        if not uuids:
            return None
        return Judge(
            lambda hosts: hosts.count_instances(uuids) > 0,
            lambda _host: f"holds none of {list(uuids)}",
            uuids,
        )


class SimpleCIDRAffinityFilter(HostFilter):
    """Hints ``build_near_host_ip`` and ``cidr`` (``/24``): only hosts with an address in that network.

    The two texts are put together as they are. Raises ``netaddr.AddrFormatError`` or ``ValueError`` if that
    is no network, ``TypeError`` if a hint does not have exactly one value or a host has no address.
    """

    run_filter_once_per_request = True

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        near = request.hint("build_near_host_ip")
        if not near:
            return None
        with faults_of_request():
            network = netaddr.IPNetwork(near + request.hint("cidr", "/24"))
        first, last = (_number(network.version, end) for end in (network.first, network.last))

        def passes(hosts: HostView) -> np.ndarray:
            column = hosts.coded("host_ip")
            addresses = _addresses(column.values)[column.codes]
            if None in addresses:
                raise TypeError("a host has no address to compare with the hint build_near_host_ip")
            return ((first <= addresses) & (addresses <= last)).astype(bool)

        return Judge(passes, lambda host: f"host address {host.host_ip} not in {network.cidr}")


# Addresses hardly ever change; those of a table are read once.
@lru_cache(maxsize=4)
def _addresses(texts: tuple[str | None, ...]) -> np.ndarray:
    """Return addresses as integers, those of all IPv6 above those of all IPv4; None where there is none."""
    parsed = [ipaddress.ip_address(text) if text else None for text in texts]
    return np.array([address and _number(address.version, int(address)) for address in parsed], dtype=object)


def _number(version: int, address: int) -> int:
    return version << 128 | address


class ServerGroupAntiAffinityFilter(HostFilter):
    """Policy ``anti-affinity``: fewer than ``max_server_per_host`` (1) members of the group on a host.

    A host that holds the instance itself passes: it is being resized there. Judged for every instance, since
    those placed by the same request count if they are members.
    """

    local = False
    needs = INSTANCES

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        group = request.server_group
        if group is None or group.policy != "anti-affinity":
            return None
        members, limit = tuple(dict.fromkeys(group.members)), group.max_server_per_host

        def passes(hosts: HostView) -> np.ndarray:
            few = hosts.count_instances(members) < limit
            return few | (hosts.count_instances([request.progress.instance_uuid]) > 0)

        def reason(host: HostState) -> str:
            number = len(instances_held(host, members))
            return f"members of group {group.text} on host: {number}, limit {limit}"

        return Judge(passes, reason, (*group.members, *request.instance_uuids))


class ServerGroupAffinityFilter(HostFilter):
    """Policy ``affinity``: only the hosts of the group, once it has any. All nodes of a host count."""

    local = False

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        group = request.server_group
        if group is None or "affinity" not in group.policies:
            return None
        progress = request.progress
        return Judge(
            lambda hosts: hosts.on_hosts(progress.group_hosts) if progress.group_hosts else all_pass(hosts),
            lambda _host: f"host not among group hosts {list(progress.group_hosts)}",
        )


class GroupAntiAffinityFilter(ServerGroupAntiAffinityFilter):
    """The old name of ``ServerGroupAntiAffinityFilter``."""


class GroupAffinityFilter(ServerGroupAffinityFilter):
    """The old name of ``ServerGroupAffinityFilter``."""


class FailureDomainFilter(HostFilter):
    """Hint or extra spec ``different_failure_domain``: each member of a server group in a domain of its own.

    The hint counts if both are there. ``[berth] failure_domain_key`` is the key of aggregate metadata that
    names the domain of a host; hosts without one are rejected. Where the instance itself is does not matter,
    so it may be resized within its domain. Members on hosts without a domain are in no one's way.
    """

    local = False
    needs = INSTANCES

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        group = request.server_group
        if group is None or not _wants_other_domains(request):
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

        return Judge(passes, reason, members)


def _wants_other_domains(request: SchedulingRequest) -> bool:
    wanted = request.hint(OTHER_DOMAIN)
    stored = request.extra_specs.get(f"berth:{OTHER_DOMAIN}")
    return strutils.bool_from_string(stored if wanted is None else wanted)
