"""What becomes of a call that the broker delivers again.

The broker does that if it does not know that the call was answered: its process died, or lost its connection.
So each process records which calls it runs, and that it sends a reply before it does so. The records outlive
the process and are read by all processes of the daemon. A call that was answered is not run again; one that
another process runs waits for that; one whose reply may have been delivered is answered in the same way.

A process that loses its connection still has the calls that it has not begun. The broker delivers them to
others meanwhile. So a call that waited for a thread is looked up in the records too, although this was its
first delivery.

A call that ends its process would end the next one, for ever. So the runs that ended with their process are
counted. (A quorum queue counts deliveries and says so in each message; a classic queue has no count.)
"""

from collections.abc import Callable
from enum import Enum, auto
import random
import time
from typing import NamedTuple

from oslo_log import log as logging

from scheduler.message_runs import MessageRuns
from scheduler.rpc.amqp.message import ConfirmedMessage

LOG = logging.getLogger(__name__)

#: Runs of a call that may end with their process. Other calls that run in the same process are counted too,
#: but hardly any runs beside such a call so often.
MOST_INTERRUPTED = 4

#: Deliveries of a call that a quorum queue may count. RabbitMQ drops a call after 20, without an answer.
MOST_DELIVERIES = 12

#: Seconds that a call waits for a thread, after which it may have been run by another process meanwhile.
LONG_WAIT = 0.1

#: Shortest and longest random delay, in seconds, between looks at whether another process still runs a call.
LOOK_DELAY = (0.5, 1.5)


class Fate(Enum):
    """What is done with a call that was received.

    Attributes:
        RUN: It is served.
        RUN_ANSWERED: It is served, but its caller may have been told hosts already.
        DROPPED: It was answered: it is acknowledged.
        RETURNED: It was returned to the broker, as this process stops.
        REFUSED: It is answered with an error and acknowledged.
        UNKNOWN: The records cannot be read: it is returned to the broker, and refused if that does not help.
    """

    RUN = auto()
    RUN_ANSWERED = auto()
    DROPPED = auto()
    RETURNED = auto()
    REFUSED = auto()
    UNKNOWN = auto()


class Decision(NamedTuple):
    """What is done with a call, and the reason if it is refused."""

    fate: Fate
    reason: str = ""


class Redeliveries:
    """Decides what becomes of received calls. Any thread may use it."""

    def __init__(
        self,
        runs: MessageRuns,
        patience: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        uniform: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """Decide with the records of this daemon.

        Args:
            runs: The records.
            patience: Returns how long a caller waits, in seconds. A call waits no longer for another process.
            clock: Seconds that only grow.
            sleep: Waits for a number of seconds.
            uniform: Returns a random number between two bounds.
        """
        self._runs = runs
        self._patience = patience
        self._clock = clock
        self._sleep = sleep
        self._uniform = uniform

    def decide(self, message: ConfirmedMessage) -> Decision:
        """Return what is done with a call; waits while another process runs it.

        If it is run, ``end`` is called after that, or its reply recorded as confirmed. So it is with one of
        which nothing is known.
        """
        try:
            return self._decide(message)
        except Exception:  # here, or its thread would leave it without an answer and without a word
            LOG.exception("It cannot be read what became of call %s", message.msg_id)
            return Decision(Fate.UNKNOWN, "it cannot be read whether it was answered")

    def _decide(self, message: ConfirmedMessage) -> Decision:
        identity = message.unique_id
        if not identity:
            return Decision(Fate.RUN)
        if not message.redelivered:
            self._runs.begin_run(identity)
            waited = self._clock() - message.received
            if waited < LONG_WAIT or not self._runs.was_run_elsewhere(identity):
                return Decision(Fate.RUN)
            self._runs.leave_run(identity)
            message.was_run_elsewhere = True
        decision = self._begin_alone(message) or self._decide_by_reply(message)
        if decision.fate not in {Fate.RUN, Fate.RUN_ANSWERED, Fate.RETURNED}:
            self._runs.end_run(identity)
        return decision

    def end(self, message: ConfirmedMessage) -> None:
        """Learn that a call was answered, or returned to the broker."""
        if message.unique_id:
            self._runs.end_run(message.unique_id)

    def pause(self, message: ConfirmedMessage) -> None:
        """Learn that a call that is run is sent on: from now on another process may run it."""
        if message.unique_id:
            self._runs.leave_run(message.unique_id)

    def resume(self, message: ConfirmedMessage) -> None:
        """Learn that a call could not be sent on, and is run here after all."""
        if message.unique_id:
            self._runs.begin_run(message.unique_id)

    def _begin_alone(self, message: ConfirmedMessage) -> Decision | None:
        """Begin a run once no other process has one; None if it is begun.

        Of two processes that begin at once both see the other, step back and try again.
        """
        identity, end = message.unique_id, self._clock() + self._patience()
        while True:
            self._runs.begin_run(identity)
            if not self._runs.runs_elsewhere(identity):
                return self._refuse_if_too_often(message)
            self._runs.leave_run(identity)
            if message.hand_back():
                return Decision(Fate.RETURNED)
            if self._clock() >= end:
                return Decision(Fate.REFUSED, "another scheduler has served it for too long")
            self._sleep(self._uniform(*LOOK_DELAY))

    def _refuse_if_too_often(self, message: ConfirmedMessage) -> Decision | None:
        interrupted = self._runs.interrupted_runs(message.unique_id)
        if interrupted > MOST_INTERRUPTED:
            why = f"{interrupted} schedulers ended while they served it"
        elif message.delivery_count > MOST_DELIVERIES:
            why = f"it was delivered {message.delivery_count} times"
        else:
            return None
        LOG.error("Call %s is answered with an error and not run again: %s", message.msg_id, why)
        return Decision(Fate.REFUSED, why)

    def _decide_by_reply(self, message: ConfirmedMessage) -> Decision:
        reply = self._runs.reply_to(message.unique_id)
        if reply is None:
            return Decision(Fate.RUN)
        if reply.confirmed:
            LOG.info("Call %s was answered before it was delivered again", message.msg_id)
            return Decision(Fate.DROPPED)
        if reply.failed:
            return Decision(Fate.REFUSED, "it may have been answered with an error")
        return Decision(Fate.RUN_ANSWERED)
