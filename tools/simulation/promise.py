"""The promise, checked after a history from what callers received, from Placement and from the broker.

After quiet returns, every instance that a caller was told a host for holds exactly that host's allocation,
and nothing else holds anything that Berth wrote; every caller is answered or its message is still on the
broker; every wait is bounded in total.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from tools.simulation.broker import Message
from tools.simulation.callers import Call, Instance
from tools.simulation.placement import Amounts, Placement, Rows

# What may take time when a caller has left: its reply, so many seconds; and a read of Placement and the
# release that follows it, as long as an answer is waited for.
REPLY, ANSWERS, DEFAULT_TIMEOUT = 65.0, 2, 15.0


#: Errors of calls for which there is room all the time.
NO_ANSWER = frozenset({"AllocationUpdateFailed", "NoValidHost"})


@dataclass(frozen=True, order=True)
class Violation:
    """Something that must not be. ``kind`` is the same for violations of one nature."""

    kind: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def check_allocations(
    placement: Placement, instances: list[Instance], amounts: Amounts, forgotten: Collection[str] = ()
) -> Iterator[Violation]:
    """Compare what instances hold with what callers were told.

    Args:
        placement: What they hold.
        instances: What callers were told.
        amounts: What each gets.
        forgotten: Names of instances that may keep a host of which no caller was told, or whose rows may be
            hidden: the process that was in doubt of them has ended, and nova does not bury them.
    """
    for instance in instances:
        held = placement.held(instance.uuid)
        if held not in _allowed(instance, amounts):
            kind = _kind(instance, held)
            if kind != "leak" or instance.name not in forgotten:
                yield Violation(kind, f"{instance.name} holds {_short(held)}, {_told(instance)}")
        elif held and not placement.shown(instance.uuid) and instance.name not in forgotten:
            yield Violation("hidden", f"{instance.name} holds {_short(held)}, and Placement does not show it")


def _allowed(instance: Instance, amounts: Amounts) -> list[Rows]:
    source = {} if instance.deleted else instance.source
    if instance.host is not None:
        return [_with(source, instance.host, amounts)]
    # The caller had given up when these came, which Berth cannot know.
    return [source, *(_with(source, node, amounts) for node in instance.late)]


def _with(source: Rows, node: str, amounts: Amounts) -> Rows:
    return {node: amounts, **source}


def _kind(instance: Instance, held: Rows) -> str:
    if instance.source and not instance.deleted and not instance.source.items() <= held.items():
        return "source lost"
    if instance.source and instance.deleted and held == instance.source:
        return "source restored"
    ours = {node for node in held if node not in instance.source}
    if instance.host is None:
        return "leak"
    if not ours:
        return "lost"
    return "doubled" if instance.host in ours else "moved"


def _told(instance: Instance) -> str:
    if instance.deleted:
        return "it was deleted"
    return f"its caller was told {_node(instance.host)}" if instance.host else "its caller was told no host"


def _short(held: Rows) -> str:
    return " and ".join(_node(node) for node in held) or "nothing"


def _node(uuid: str) -> str:
    return f"h{int(uuid[-12:])}"


def check_capacity(placement: Placement, instances: list[Instance]) -> Iterator[Violation]:
    """Find providers over their capacity for which Berth's claim was the last one, so that it could know."""
    for provider, consumers in placement.overfilled.items():
        left = [
            one.name for one in instances if one.uuid in consumers and provider in placement.held(one.uuid)
        ]
        if left and placement.is_over(provider):
            yield Violation("over capacity", f"{_node(provider)} is over its capacity with {', '.join(left)}")


def check_groups(policy: str, most: int, members: Sequence[Instance]) -> Iterator[Violation]:
    """Find members of a server group that callers were told hosts for against its policy.

    Args:
        most: How many members of an anti-affinity group may share a host.
    """
    hosts = Counter(one.host for one in members if one.host is not None)
    too_many = policy == "anti-affinity" and max(hosts.values(), default=0) > most
    if too_many or (policy == "affinity" and len(hosts) > 1):
        where = ", ".join(f"{one.name} on {_node(one.host)}" for one in members if one.host)
        yield Violation(
            "policy", f"the members of a group with {policy} are on hosts that it forbids: {where}"
        )


def check_calls(calls: list[Call], waiting: list[Message]) -> Iterator[Violation]:
    """Find calls that got no reply and are not in the queue any more, although their callers waited."""
    queued = {each.number for each in waiting}
    for call in calls:
        message = call.message
        if call.neglected:
            yield Violation("neglected", f"the caller of {message.name} heard nothing while it was served")
        if call.orphaned or message.replies or message.number in queued:
            continue
        if message.abandoned and min(message.abandoned) >= call.ended:
            continue
        if any(process.alive for process in message.working):
            yield Violation("stuck", f"{message.name} is still worked on")
        else:
            yield Violation("unanswered", f"{message.name} got no reply")


def check_errors(calls: list[Call]) -> Iterator[Violation]:
    """Find calls that ended with an error though there was room: a run met claims that it could not name."""
    for call in calls:
        if call.failure in NO_ANSWER:
            yield Violation("error", f"{call.message.name} was answered with {call.failure}")


def check_receipts(calls: list[Call]) -> Iterator[Violation]:
    """Find calls whose message was acknowledged after a reply that never reached the caller, which waited."""
    for call in calls:
        if call.answered or call.orphaned or not call.message.acknowledged:
            continue
        if call.message.replies and max(call.message.replies) < call.ended - 1.0:
            yield Violation("reply lost", f"the reply to {call.message.name} did not reach its caller")


def check_waits(
    calls: list[Call], longest: float, paused: float, timeout: float = 0.0
) -> Iterator[Violation]:
    """Find requests that were worked on for much longer than their caller waits.

    Args:
        calls: All calls.
        longest: Seconds for which callers wait.
        paused: Seconds for which processes stood still.
        timeout: Seconds for which an answer of Placement is waited for; 0: the default.
    """
    grace = REPLY + ANSWERS * (timeout or DEFAULT_TIMEOUT) + paused
    for call in calls:
        slowest = max(call.message.waits, default=0.0)
        if slowest > longest + grace:
            yield Violation(
                "slow", f"{call.message.name} took {slowest:.0f} s, its caller waits {longest:.0f} s"
            )
