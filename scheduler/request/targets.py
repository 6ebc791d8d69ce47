"""Requests for a named host or node: what to look up, and what the result means for the query.

The look-up itself is the caller's: this package knows no database (spec: placement-and-workflow 1.10).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler import errors, objects
from scheduler.request.reading import read


@dataclass(frozen=True, slots=True)
class NamedTarget:
    """The compute nodes that a request names.

    ``host`` and ``node``: that one record; ``host`` alone: all nodes of the service host; ``node`` alone: by
    the node's name.

    Attributes:
        cell_uuid: The only cell to search; None: the cell of the host's mapping, or all.
    """

    host: str | None
    node: str | None
    cell_uuid: str | None = None


class NamedNode(NamedTuple):
    """A compute node that a request names: its uuid, its service host and its name."""

    uuid: str
    host: str
    node: str


@dataclass(frozen=True, slots=True)
class Targets:
    """What the look-up means for the query.

    Attributes:
        in_tree: The one provider tree to search; None for all.
        limited: Whether the query may have a limit.
        aggregates: Uuids of aggregates; a host must be in one of them, unless there is only one tree to
            search; empty: it may be in any or none.
    """

    in_tree: str | None = None
    limited: bool = True
    aggregates: frozenset[str] = frozenset()


ANY_HOST = Targets()


def named_target(spec: objects.RequestSpec) -> NamedTarget | None:
    """Return what to look up for a RequestSpec; None if it names neither host nor node."""
    destination = read(spec, "requested_destination")
    host = read(destination, "host") or next(iter(read(spec, "force_hosts", ())), None)
    node = read(destination, "node") or next(iter(read(spec, "force_nodes", ())), None)
    if not (host or node):
        return None
    return NamedTarget(host or None, node or None, read(read(destination, "cell"), "uuid"))


def apply_lookup(
    spec: objects.RequestSpec, target: NamedTarget | None, found: Sequence[NamedNode] = ()
) -> Targets:
    """Return what the nodes found for a target mean for the query.

    If one node alone was found, a requested destination is narrowed to it, in place.

    Raises:
        NoValidHost: The target does not exist.
    """
    if target is None:
        return ANY_HOST
    if not found:
        raise errors.NoValidHost(f"No such host - host: {target.host} node: {target.node} ")
    if len(found) > 1:
        # Placement has no "one of these trees": all candidates are fetched, and hosts are selected later.
        return Targets(limited=False)
    destination = read(spec, "requested_destination")
    if destination is not None:
        destination.host, destination.node = found[0].host, found[0].node
    return Targets(in_tree=found[0].uuid)
