"""Which instances nova moves off a host, and which it evacuates (spec: host-state-and-cells 7.4, 7.5, 7.6).

nova's API and conductor refuse the others, whatever room there is.
"""

from collections.abc import Iterable
from typing import NamedTuple

from scheduler.operators.snapshot.snapshot import SOFT_DELETED, Snapshot

LIVE, COLD, EVACUATE = "live", "cold", "evacuate"

#: How nova moves an instance of a state off a host that is up.
_WAYS = {"active": LIVE, "paused": LIVE, "stopped": COLD}

NO_VTPM = "nova evacuates no instance with a virtual TPM"

#: States from which nova evacuates an instance, with any task state.
_EVACUATED = {"active", "stopped", "error"}


class Way(NamedTuple):
    """How nova moves an instance.

    Attributes:
        name: ``live``, ``cold``, or ``evacuate`` off a host that is down; "" if nova does not move it.
        why: Why nova does not move it.
        reset: Whether the state of the instance has to be reset first.
    """

    name: str
    why: str = ""
    reset: bool = False


def way_of(snapshot: Snapshot, index: int) -> Way:
    """Return how nova moves an instance, whose request has been read, off a host that is up."""
    instances, stored = snapshot.instances, snapshot.stored_request(index)
    state, task = instances.states[index], instances.tasks[index]
    name = _WAYS.get(state, "")
    if not name:
        return Way("", f"nova moves no instance that is {state}")
    if task:
        return Way("", f"nova moves no instance while its task state is {task}")
    if snapshot.is_down[instances.rows[index]]:
        return Way("", "nova migrates nothing off a host that is down; see --evacuate")
    if name == COLD or stored is None:
        return Way(name)
    cold_only = stored.cold_only(snapshot.hosts.minimum_compute_version())
    if cold_only and state == "paused":
        return Way("", f"nova migrates its {cold_only} cold only, and no paused instance cold")
    return Way(COLD if cold_only else LIVE)


def way_off_a_dead_host(snapshot: Snapshot, index: int, *, reset_states: bool) -> Way:
    """Return how nova evacuates an instance.

    Args:
        reset_states: The state of an instance that nova does not evacuate as it is may be reset to ``error``.
    """
    state = snapshot.instances.states[index]
    if state == SOFT_DELETED:
        return Way("", f"nova evacuates no instance that is {state}")
    if is_never_evacuated(snapshot, index):
        return Way("", NO_VTPM)
    if state in _EVACUATED:
        return Way(EVACUATE)
    if not reset_states:
        return Way("", f"nova evacuates no instance that is {state} before its state is reset")
    return Way(EVACUATE, reset=True)


def is_never_evacuated(snapshot: Snapshot, index: int) -> bool:
    """Whether nova evacuates an instance, whose request has been read, in no state."""
    stored = snapshot.stored_request(index)
    return stored is not None and stored.has_vtpm


def to_evacuate(snapshot: Snapshot, rows: Iterable[int]) -> list[int]:
    """Return the instances on some rows that need another host if theirs fail: not the soft-deleted ones."""
    instances = snapshot.instances
    return [index for index in instances.on(rows).tolist() if instances.states[index] != SOFT_DELETED]


def not_evacuated(snapshot: Snapshot, indices: Iterable[int]) -> list[int]:
    """Return those of some instances that nova does not evacuate before an operator resets their state."""
    states = snapshot.instances.states
    return [index for index in indices if states[index] not in _EVACUATED]
