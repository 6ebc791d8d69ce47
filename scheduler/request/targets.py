"""Requests for a named host: what has to be looked up, and what the answer means.

The look-up itself is done elsewhere: nothing here knows a database (spec: placement-and-workflow 1.10).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from scheduler import errors
from scheduler.request.reading import first, read


@dataclass(frozen=True, slots=True)
class Wanted:
    """The compute nodes to look up.

    ``host`` and ``node``: that one record; ``host`` alone: all nodes of the service host; ``node`` alone: by
    the node's name. ``cell_uuid`` narrows it to a cell; without it, and with a host, the host's mapping does.
    """

    host: str | None
    node: str | None
    cell_uuid: str | None = None


@dataclass(frozen=True, slots=True)
class Node:
    """One compute node that was found."""

    uuid: str
    host: str
    node: str


@dataclass(frozen=True, slots=True)
class Targets:
    """What the look-up means for the query: the one tree to look in, if any; whether a limit may apply."""

    in_tree: str | None = None
    limited: bool = True


ANYWHERE = Targets()


def wanted(spec) -> Wanted | None:
    """What to look up for a RequestSpec; None when it names neither host nor node."""
    destination = read(spec, "requested_destination")
    host = read(destination, "host") or first(read(spec, "force_hosts"))
    node = read(destination, "node") or first(read(spec, "force_nodes"))
    if not (host or node):
        return None
    return Wanted(host or None, node or None, read(read(destination, "cell"), "uuid"))


def settle(spec, look_up: Wanted | None, found: Sequence[Node] = ()) -> Targets:
    """Apply what was ``found``. One node only: a requested destination is narrowed to it, in place.

    :raises NoValidHost: something was looked up and not found.
    """
    if look_up is None:
        return ANYWHERE
    if not found:
        raise errors.NoValidHost(f"No such host - host: {look_up.host} node: {look_up.node} ")
    if len(found) > 1:
        # Placement knows no "one of these trees": all candidates must come, and hosts are told apart later.
        return Targets(limited=False)
    destination = read(spec, "requested_destination")
    if destination is not None:
        destination.host, destination.node = found[0].host, found[0].node
    return Targets(in_tree=found[0].uuid)
