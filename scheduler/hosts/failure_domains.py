"""Failure domains: hosts that fail together, such as those of a rack, by the metadata of their aggregates."""

from collections import Counter
from collections.abc import Iterable

import numpy as np

from scheduler.hosts.aggregates import AggregateSet
from scheduler.hosts.view import HostView


def members_nearby(hosts: HostView, key: str, uuids: Iterable[str]) -> np.ndarray:
    """Return how many of the given instances are in the failure domains of each host.

    Those on hosts without a domain are in none. An instance is counted once for each domain that it shares.

    Args:
        key: The key of the aggregate metadata that names the domain.

    Returns:
        int64, shape (hosts,).

    Raises:
        LookupError: An instance was not located by ``HostView.load``.
    """
    members = _by_domain(hosts, key, uuids)
    if not members:
        return np.zeros(len(hosts), np.int64)

    def count(of_host: AggregateSet) -> int:
        return sum(members[domain] for domain in of_host.raw(key))

    return hosts.coded("aggregates").spread(count, np.int64)


def apart_from(hosts: HostView, key: str, uuids: Iterable[str]) -> np.ndarray:
    """Return which hosts have a failure domain, and none that has one of the given instances.

    Arguments and errors are those of ``members_nearby``. The result is bool, shape (hosts,).
    """
    taken = _by_domain(hosts, key, uuids).keys()

    def is_apart(of_host: AggregateSet) -> bool:
        domains = of_host.raw(key)
        return bool(domains) and taken.isdisjoint(domains)

    return hosts.coded("aggregates").spread(is_apart)


def _by_domain(hosts: HostView, key: str, uuids: Iterable[str]) -> Counter[str]:
    """Return how many of the given instances each failure domain has."""
    aggregates, members = hosts.table.coded["aggregates"], Counter[str]()
    on_hosts = hosts.count_in_table(uuids)
    held = np.flatnonzero(on_hosts)
    for row, number in zip(held.tolist(), on_hosts[held].tolist(), strict=True):
        members.update(dict.fromkeys(aggregates[row].raw(key), number))
    return members
