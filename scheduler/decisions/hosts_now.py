"""The answer to a question about one host as of now, for a request that is kept.

This is for hosts that the document of a decision does not name. ``scheduler/workflow/host_now.py`` finds it.
"""

import msgspec

from scheduler.decisions.rendering import FilterVerdict

#: Nodes of one service host that are explained.
MOST_NODES = 20


class NodeNow(msgspec.Struct):
    """One compute node as of now.

    Attributes:
        excluded: Why the request itself excludes it, or is refused; "" if it does not.
        unoffered: Why Placement does not offer it; "" if it does.
        verdicts: The result of each filter; none if the request has its hosts not filtered.
        remedies: What helps against what keeps Placement from offering it.
        asked: Whether Placement was queried: not if that is certain without it.
    """

    host: str
    node: str
    cell: str
    zone: str
    excluded: str = ""
    unoffered: str = ""
    verdicts: list[FilterVerdict] = msgspec.field(default_factory=list)
    remedies: list[str] = msgspec.field(default_factory=list)
    asked: bool = True


class HostNow(msgspec.Struct):
    """All nodes of a host at a time."""

    time: str
    nodes: list[NodeNow]
