"""One move of a run, with its state.

::

    waiting ──▶ requested ──▶ moved
                 │  │  └────▶ confirming ──▶ moved      a cold migration
                 │  └───────▶ refused ──▶ waiting       nova did nothing; it is planned once more
                 └──────────▶ failed                    a surprise: the run stops
    waiting ──▶ gone                                    deleted, or moved by someone else
"""

from dataclasses import asdict, dataclass, field
from typing import Any

WAITING, REQUESTED, CONFIRMING = "waiting", "requested", "confirming"
MOVED, GONE, REFUSED, FAILED = "moved", "gone", "refused", "failed"

#: States of a move that nova may be working on.
OPEN = frozenset({REQUESTED, CONFIRMING})


@dataclass
class Step:
    """An instance that goes to another host.

    Attributes:
        vm_state: The state for which the way was chosen.
        way: ``live``, ``cold`` or ``evacuate``.
        reset_state: Whether its state is reset to ``error`` first, so that nova evacuates it.
        source_nodes: The providers of the host that it leaves.
        target_nodes: The providers of the host that it gets.
        after: Instances that have to be moved before, if they are moved.
        name: The name of the server, once it has been read.
        tries: How often nova was asked to move it.
        requested_at: When it was asked, in seconds since the epoch; ``ended_at`` alike.
        why: Why it was not moved.
    """

    instance: str
    source: str
    target: str
    way: str
    vm_state: str = ""
    reset_state: bool = False
    source_nodes: list[str] = field(default_factory=list)
    target_nodes: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    name: str = ""
    project: str = ""
    state: str = WAITING
    tries: int = 0
    requested_at: float = 0.0
    ended_at: float = 0.0
    why: str = ""

    def document(self) -> dict[str, Any]:
        """Return all of it as values that JSON has."""
        return asdict(self)

    @property
    def label(self) -> str:
        return f"{self.name} ({self.instance})" if self.name else self.instance


@dataclass(frozen=True)
class Stay:
    """An instance for which a plan has no move.

    Attributes:
        busy: Whether that may change soon, as nova is still working on it.
    """

    instance: str
    host: str
    vm_state: str
    why: str
    busy: bool


@dataclass
class Plan:
    """The moves that are left, in an order that works.

    Attributes:
        hosts: Hosts that are to get no instances.
    """

    hosts: list[str]
    steps: list[Step]
    stays: list[Stay]
    nodes: dict[str, list[str]]
