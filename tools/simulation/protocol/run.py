"""One call, from its delivery to its reply, as the protocol has it.

The numbers are those of the rules in ``doc/source/simulation.rst``.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from tools.simulation import product
from tools.simulation.callers import State
from tools.simulation.protocol.broker import MISSING_QUEUE, Reply
from tools.simulation.protocol.channel import Channel, Delivery
from tools.simulation.protocol.spool import Away, Spool
from tools.simulation.protocol.writing import WINDOW, Held, Outcome, Writer, Written
from tools.simulation.runtime import Process, Runtime

# Seconds beyond the time limit of a sign of life after which a caller that got none has left.
GRACE = 5.0

# Seconds after which it is asked once more whether a call is wanted, before it is answered.
SOON = 5.0

# How often a call is begun again after another run has fenced what it was about to release.
ROUNDS = 4

# Seconds for which a release is tried before the error is sent, and left to the spool.
RELEASE = 5.0


class Ended(Exception):
    """The call ends here without a reply."""


class Failed(Exception):
    """The call is to be answered with an error."""


class Surroundings(Protocol):
    """What a run needs of its process and of nova."""

    runtime: Runtime
    process: Process
    channel: Channel
    writer: Writer
    spool: Spool
    stopping: bool
    batch: int

    def state_of(self, uuid: str) -> State:
        """Return what nova's databases say of an instance."""

    def offered(self, deadline: float) -> list[str] | None:
        """Return the nodes with room for an instance; None: Placement does not tell."""

    def fits(self, reply: Reply) -> bool:
        """Return whether the broker takes a reply of this size."""

    def send(self, reply: Reply) -> bool | None:
        """Send a reply; False: its queue is missing; None: it cannot be sent, or was not confirmed."""

    def tell(self, text: str) -> None:
        """Write an event into the trace."""


class Run:
    """One call.

    Args:
        around: What it needs.
        delivery: How it came.
        timeout: Seconds for which its caller waits in all.
    """

    def __init__(self, around: Surroundings, delivery: Delivery, timeout: float) -> None:
        self.delivery = delivery
        self.heard_at = around.runtime.clock
        self._around = around
        self._clock: Callable[[], float] = lambda: around.runtime.clock
        self._begun = around.runtime.clock
        self._deadline = self._begun + timeout
        arguments = delivery.message.body["args"]
        self.uuids: list[str] = list(arguments["instance_uuids"])
        data = arguments["spec_obj"]["nova_object.data"]
        self._source = frozenset(product.host_uuid(int(name[1:])) for name in data["ignore_hosts"] or ())
        self._past = delivery.past
        self._held: dict[str, Held] = {}
        self._empty: set[str] = set()
        self._together = True
        self._lost: set[str] = set()

    # -- the steps -------------------------------------------------------------------------------------------

    def serve(self) -> None:
        """Answer the call, or leave it to another run."""
        message = self.delivery.message
        message.working.add(self._around.process)
        self._note_earlier_runs()
        try:
            result, failure = self._decide()
            self._answer(result, failure)
        except Ended as reason:
            self._tell(f"ends {message.name}: {reason}")
        finally:
            message.waits.append(self._clock() - self._begun)
            message.working.discard(self._around.process)

    def _decide(self) -> tuple[list[str] | None, str | None]:
        """Return the node of each instance; or the name of an error, after all was released."""
        for _ in range(ROUNDS):
            try:
                return self._choose_all(), None
            except Failed as failure:
                error = str(failure)
                if self._release_before_error() and (self._past or not self._finds_others_claims()):
                    return None, error
                self._past = True
        # The spool looks at what is held by then.
        self._around.spool.note_unknown(self.uuids, self._source)
        return None, error

    def _choose_all(self) -> list[str]:
        while True:
            if self._past and not self._is_wanted():  # rule 2a
                self._drop("its caller has left")
            if self._past:
                self._read()  # rule 2b
            if not self._claim_missing():  # rule 3
                self._past = True
            elif not self._past or self._fence():  # rule 4
                self._ask_again(self._begun)
                return [self._node_of(uuid) for uuid in self.uuids]

    def _answer(self, result: list[str] | None, failure: str | None) -> None:
        rows = None if result is None else [[_selection(node)] for node in result]
        reply = Reply(self.delivery.message, rows, failure)
        begun = self._clock()
        until = begun + MISSING_QUEUE
        while True:
            self._check_channel()
            if result is not None:
                self._ask_again(begun)
            checked_at = self._clock()
            if not self._around.fits(reply):
                if not self._release_before_error():
                    self._around.spool.note_unknown(self.uuids, self._source)
                reply = Reply(self.delivery.message, None, "ReplyTooLarge")
            sent = self._around.send(reply)
            if sent:
                break
            if sent is None and self._clock() >= self._deadline + GRACE:
                self._requeue("the reply was not confirmed")
            if sent is False and self._clock() >= until:
                self._drop("its reply queue is gone")
            self._around.runtime.sleep(1.0)
        if self._clock() > checked_at + SOON:
            # It was frozen; whether the caller was still there is looked at later.
            self._around.spool.note_unknown(self.uuids, self._source)
        self.delivery.message.replies.append(self._clock())
        self._tell(f"replies to {self.delivery.message.name}: {reply.failure or 'hosts'}")
        if reply.result is not None:
            self._around.spool.note_answered({uuid: self._held[uuid].rows for uuid in self.uuids})
        self._around.channel.acknowledge(self.delivery)

    # -- a call with a past ----------------------------------------------------------------------------------

    def redelivered(self, delivery: Delivery) -> None:
        """Go on with a new delivery of the same message: this run is its next one."""
        self.delivery, self._past = delivery, True
        self._note_earlier_runs()

    def _note_earlier_runs(self) -> None:
        """Look at the instances once more when no write of an earlier run can come any more."""
        if self.delivery.message.redelivered:
            self._around.spool.note_unknown(self.uuids, self._source)

    def _is_wanted(self) -> bool:
        return State.WAITING in self._states().values()

    def _ask_again(self, since: float) -> None:
        """End if the caller has left meanwhile, and that took long.

        Raises:
            Ended: It has.
        """
        if self._clock() > since + SOON and not self._is_wanted():
            self._drop("its caller has left")

    def _states(self) -> dict[str, State]:
        while True:
            try:
                return {uuid: self._around.state_of(uuid) for uuid in self.uuids}
            except Away:
                if self._clock() >= self._deadline:
                    self._requeue("nova's databases are away")
                self._around.runtime.sleep(1.0)

    def _read(self) -> None:
        held = self._around.writer.read_many(self.uuids, self._deadline)
        if held is None:
            # What an earlier run wrote for them is not known.
            self._around.spool.note_unknown(self.uuids, self._source)
            raise Failed("PlacementAway")
        self._held = {uuid: one for uuid, one in held.items() if one.rows}

    def _finds_others_claims(self) -> bool:
        """Return whether the instances of a new call hold what another call for them has claimed."""
        held = self._around.writer.read_many(self.uuids, self._clock() + RELEASE) or {}
        return any(one.rows.keys() - self._source for one in held.values())

    def _fence(self) -> bool:
        """Write once more what all instances hold; return False if another writer was first."""
        if not self._is_wanted():
            self._drop("its caller has left")
        written = self._write(self._held)
        if written.outcome is Outcome.DONE:
            self._held = dict(written.held)
            return True
        if written.outcome is Outcome.CHANGED:
            return False
        raise Failed(f"Fence{written.outcome.name}")

    # -- claims ----------------------------------------------------------------------------------------------

    def _claim_missing(self) -> bool:
        """Claim a host for each instance that holds none; return False if another writer was first."""
        refused: set[str] = set()
        writes = 0
        while missing := [uuid for uuid in self.uuids if not self._has_host(uuid)]:
            some = missing[: self._around.batch if self._together else 1]
            self._check_channel()
            if self._around.stopping:
                self._requeue("the process stops")
            nodes = [node for node in self._offered() if node not in refused and node not in self._source]
            if not nodes:
                raise Failed("NoValidHost")
            wanted = {uuid: self._wanted_on(uuid, self._choose(nodes)) for uuid in some}
            written = self._write(wanted)
            writes += 1
            if written.outcome is Outcome.DONE:
                self._held |= written.held
            elif written.outcome is Outcome.CHANGED:
                self._note_changed(some, written)
                return False
            elif written.outcome is Outcome.REFUSED:
                refused |= {written.provider} if written.provider else set(nodes)
                self._empty |= set(some) if written.gone else set()
            else:
                raise Failed(f"Claim{written.outcome.name}")
        self._past |= writes > 1
        return True

    def _offered(self) -> list[str]:
        nodes = self._around.offered(self._deadline)
        if nodes is None:
            raise Failed("PlacementAway")
        return nodes

    def _choose(self, nodes: list[str]) -> str:
        return nodes[int(self._around.runtime.chance.random() * len(nodes))]

    def _wanted_on(self, uuid: str, node: str) -> Held:
        before = self._held.get(uuid, Held({}, 0 if uuid in self._empty else None))
        return Held({**before.rows, node: dict(product.AMOUNTS)}, before.generation)

    def _note_changed(self, uuids: list[str], written: Written) -> None:
        """Learn from a conflict: of a consumer that shows nothing, a write is at work or a record is left."""
        held = self._around.writer.read_many(uuids, self._deadline)
        if held is None or any(one.rows for one in held.values()):
            return
        if len(uuids) > 1:
            self._together = False
        elif written.expected is None:
            self._empty -= set(uuids)
        elif uuids[0] not in self._empty:
            self._around.runtime.sleep(min(WINDOW, max(0.0, self._deadline - self._clock())))
            self._empty |= set(uuids)
        if self._clock() >= self._deadline:
            raise Failed("Conflict")

    def _write(self, wanted: Mapping[str, Held]) -> Written:
        return self._around.writer.write(wanted, self._deadline, lambda: self._note_lost(wanted))

    def _note_lost(self, wanted: Mapping[str, Held]) -> None:
        self._lost |= wanted.keys()
        self._around.spool.note_lost({uuid: one.rows for uuid, one in wanted.items()}, self._source)

    def _has_host(self, uuid: str) -> bool:
        return bool(self._held.get(uuid, Held()).rows.keys() - self._source)

    def _node_of(self, uuid: str) -> str:
        return min(self._held[uuid].rows.keys() - self._source)

    # -- the end ---------------------------------------------------------------------------------------------

    def _release_before_error(self) -> bool:
        """Release what the instances hold, by generation; return False if another run has fenced it.

        A conflict after a lost write of this run may come from that write as well. The spool looks at the
        instance later; an error that is sent after the hosts of another run is ignored, and one that is sent
        before them makes the conductor give the instance up.
        """
        if self._past and State.PLACED in self._states().values():
            self._drop("its caller was answered")
        release_until = self._clock() + RELEASE
        released = [self._release(uuid, release_until) for uuid in self.uuids if self._has_host(uuid)]
        return all(released)

    def _release(self, uuid: str, deadline: float) -> bool:
        held = self._held.pop(uuid)
        if self._clock() >= deadline:
            self._around.spool.note_unreleased(uuid, held.generation, self._source)
            return True
        outcome = self._around.writer.write({uuid: self._without_host(held)}, deadline).outcome
        if outcome is Outcome.CHANGED:
            # Overlapping first writes can hide what is held.
            self._around.spool.note_lost({uuid: held.rows}, self._source)
            return uuid in self._lost
        if outcome is not Outcome.DONE:
            self._around.spool.note_unreleased(uuid, held.generation, self._source)
        return True

    def _without_host(self, held: Held) -> Held:
        return Held({node: held.rows[node] for node in held.rows.keys() & self._source}, held.generation)

    def _drop(self, reason: str) -> None:
        """Acknowledge a call that is not wanted; release what those of its instances hold that are over.

        An error is sent once, in case that its caller waits for an instance that was deleted meanwhile.
        """
        until = self._clock() + RELEASE
        for uuid, state in self._states().items():
            if state is State.PLACED:
                continue
            held = None if self._clock() >= until else self._around.writer.read_many([uuid], until)
            if held is None:
                self._around.spool.note_unknown([uuid], self._source)
            elif held[uuid].rows.keys() - (self._source if state is not State.DELETED else frozenset()):
                self._held[uuid] = held[uuid]
                if state is State.DELETED:
                    self._source = frozenset()
                self._release(uuid, until)
        sent = self._around.send(Reply(self.delivery.message, None, "NotWanted"))
        if sent is None:
            self._requeue(f"{reason}, and the error was not confirmed")
        self.delivery.message.replies.append(self._clock())
        self._around.channel.acknowledge(self.delivery)
        raise Ended(reason)

    def _requeue(self, reason: str) -> None:
        self._around.channel.requeue(self.delivery)
        raise Ended(f"requeued: {reason}")

    def _check_channel(self) -> None:
        """End if the message is with the broker again: what was claimed is left to its next run.

        Raises:
            Ended: It is so; or the caller heard nothing for so long that it has left.
        """
        if self._around.channel.is_lost(self.delivery):
            raise Ended("its channel is lost")
        if self._clock() - self.heard_at > self.delivery.message.client_timeout + GRACE:
            self._drop("its caller heard nothing for too long")

    def _tell(self, text: str) -> None:
        self._around.tell(text)


def _selection(node: str) -> dict[str, Any]:
    return {"nova_object.data": {"compute_node_uuid": node}}
