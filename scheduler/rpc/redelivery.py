"""A bound on how often a call is delivered again: one that ends its process would end the next one, for ever.

A quorum queue counts deliveries and says so in each message; a classic queue has neither count nor limit. So
a process records the redelivered calls that it runs, where its successor finds them: a record that is found
is a process that died, or lost the call.
"""

from typing import Protocol

from oslo_log import log as logging

from scheduler.rpc.amqp import ConfirmedMessage

LOG = logging.getLogger(__name__)

#: Redelivered runs of a call that may end with their process; its first run is not counted. Other calls that
#: run in the same process are counted too, but hardly any runs beside such a call so often.
MOST_INTERRUPTED = 3

#: Deliveries of a call that a quorum queue may count. RabbitMQ drops a call after 20, and nobody answers it.
MOST_DELIVERIES = 12


class MessageRuns(Protocol):
    """Records which messages this process runs, in a file that outlives it."""

    def begin_run(self, message_id: str) -> int:
        """Record that a message is being run; return how many of its runs ended with their process."""

    def end_run(self, message_id: str) -> None:
        """Remove the records of a message."""


class NoRuns:
    """Records nothing."""

    def begin_run(self, message_id: str) -> int:
        """Return that no run was interrupted."""
        return 0

    def end_run(self, message_id: str) -> None:
        """Do nothing."""


class RedeliveryLimit:
    """Decides whether a redelivered call is run once more. Any thread may use it."""

    def __init__(self, runs: MessageRuns) -> None:
        self._runs = runs

    def refusal(self, message: ConfirmedMessage) -> str:
        """Return why a call is not to be run again; "" if it is, and ``end`` is called after that.

        A refusal is logged. The call is answered with it and acknowledged, so that it is logged once.
        """
        if not message.redelivered or not message.unique_id:
            return ""
        interrupted, deliveries = self._runs.begin_run(message.unique_id), message.delivery_count
        if interrupted > MOST_INTERRUPTED:
            why = f"{interrupted} schedulers ended while they served it"
        elif deliveries > MOST_DELIVERIES:
            why = f"it was delivered {deliveries} times"
        else:
            return ""
        self.end(message)
        LOG.error("Call %s is answered with an error and not run again: %s", message.msg_id, why)
        return f"The request is not tried again: {why}"

    def end(self, message: ConfirmedMessage) -> None:
        """Learn that a call was answered, or returned to the broker."""
        if message.redelivered and message.unique_id:
            self._runs.end_run(message.unique_id)
