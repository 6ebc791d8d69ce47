"""Near or away from other instances, from a network address, or from the other members of a server group.

spec: filters-and-weighers 2.7-2.10
"""

from functools import lru_cache
import ipaddress
from typing import Any

import netaddr
import numpy as np

from scheduler.filters.base import HostFilter
from scheduler.filters.utils import instance_uuids_overlap
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView


class _InstancesOfHint(HostFilter):
    """Looks for the instances that a scheduler hint names; they need not exist, nor be the requester's."""

    run_filter_once_per_request = True
    hint = ""

    def applies(self, request: Any) -> bool:
        return bool(self._uuids(request))

    def _uuids(self, request: Any) -> list[str]:
        uuids = request.get_scheduler_hint(self.hint)
        return [uuids] if isinstance(uuids, str) and uuids else list(uuids or ())

    def _overlap(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.count_instances(self._uuids(request)) > 0


class DifferentHostFilter(_InstancesOfHint):
    """Hint ``different_host``: only hosts that hold none of these instances."""

    hint = "different_host"

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        return ~self._overlap(hosts, request)

    def reason(self, host: HostState, request: Any) -> str:
        held = [uuid for uuid in self._uuids(request) if instance_uuids_overlap(host, uuid)]
        return f"holds instance {held[0]}" if held else super().reason(host, request)


class SameHostFilter(_InstancesOfHint):
    """Hint ``same_host``: only hosts that hold any one of these instances (not all, whatever nova's manual
    says).
    """

    hint = "same_host"

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        return self._overlap(hosts, request)

    def reason(self, host: HostState, request: Any) -> str:
        return f"holds none of {self._uuids(request)}"


class SimpleCIDRAffinityFilter(HostFilter):
    """Hints ``build_near_host_ip`` and ``cidr`` (``/24``): only hosts with an address in that network.

    The two texts are put together as they are. Raises ``netaddr.AddrFormatError`` if that is no network,
    ``TypeError`` if a hint does not have exactly one value or a host has no address.
    """

    run_filter_once_per_request = True

    def applies(self, request: Any) -> bool:
        return bool(request.get_scheduler_hint("build_near_host_ip"))

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        network = _network(request)
        column = hosts.coded("host_ip")
        addresses = _addresses(column.values)[column.codes]
        if None in addresses:
            raise TypeError("a host has no address to compare with the hint build_near_host_ip")
        first, last = (_number(network.version, end) for end in (network.first, network.last))
        return ((first <= addresses) & (addresses <= last)).astype(bool)

    def reason(self, host: HostState, request: Any) -> str:
        return f"host address {host.host_ip} not in {_network(request).cidr}"


def _network(request: Any) -> netaddr.IPNetwork:
    near = request.get_scheduler_hint("build_near_host_ip")
    return netaddr.IPNetwork(near + request.get_scheduler_hint("cidr", "/24"))


# Addresses hardly ever change; those of a table are read once.
@lru_cache(maxsize=4)
def _addresses(texts: tuple[str | None, ...]) -> np.ndarray:
    """Addresses as integers, those of all IPv6 above those of all IPv4; None where there is none."""
    parsed = (text and ipaddress.ip_address(text) for text in texts)
    return np.array([address and _number(address.version, int(address)) for address in parsed], dtype=object)


def _number(version: int, address: int) -> int:
    return version << 128 | address


class ServerGroupAntiAffinityFilter(HostFilter):
    """Policy ``anti-affinity``: fewer than ``max_server_per_host`` (1) members of the group on a host.

    A host that holds the instance itself passes: it is being resized there. Asked for every instance, since
    those placed by the same request count if they are members.
    """

    local = False

    def applies(self, request: Any) -> bool:
        return bool(request.instance_group) and request.instance_group.policy == "anti-affinity"

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        group = request.instance_group
        few = hosts.count_instances(set(group.members or ())) < _limit(group)
        return few | (hosts.count_instances([request.instance_uuid]) > 0)

    def reason(self, host: HostState, request: Any) -> str:
        group = request.instance_group
        number = len(set(group.members or ()).intersection(host.instances))
        return f"{number} members of group {_uuid(group)} on host, limit {_limit(group)}"


def _limit(group: Any) -> int:
    return group.rules.get("max_server_per_host", 1)


def _uuid(group: Any) -> str | None:
    return group.uuid if "uuid" in group else None


class ServerGroupAffinityFilter(HostFilter):
    """Policy ``affinity``: only the hosts of the group, once it has any. All nodes of a host count."""

    local = False

    def applies(self, request: Any) -> bool:
        group = request.instance_group
        return bool(group) and "affinity" in _policies(group) and bool(group.hosts)

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.on_hosts(request.instance_group.hosts)

    def reason(self, host: HostState, request: Any) -> str:
        return f"host not among group hosts {list(request.instance_group.hosts)}"


def _policies(group: Any) -> list[str]:
    # groups built from the oldest form of the call carry the one policy alone
    return (group.policies if "policies" in group else None) or [group.policy]


class GroupAntiAffinityFilter(ServerGroupAntiAffinityFilter):
    """The old name of ``ServerGroupAntiAffinityFilter``."""


class GroupAffinityFilter(ServerGroupAffinityFilter):
    """The old name of ``ServerGroupAffinityFilter``."""
