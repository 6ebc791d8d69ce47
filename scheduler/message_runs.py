"""Which messages a process runs, and how it answers them: what is recorded of that, and read by others.

``claims.journal`` keeps the records, in files that outlive the process; ``rpc.redelivery`` decides by them.
"""

from typing import NamedTuple, Protocol


class RecordedReply(NamedTuple):
    """A reply that was sent to a caller, or was about to be.

    Attributes:
        failed: Whether it is an error.
        confirmed: Whether the broker has confirmed it. If not, it may have been delivered.
    """

    failed: bool
    confirmed: bool


class ReplyRecords(Protocol):
    """Records how messages are answered."""

    def begin_reply(self, message_id: str, *, failed: bool) -> None:
        """Record that a reply is about to be sent: from now on its caller may know it.

        Args:
            message_id: The identity of the message.
            failed: Whether the reply is an error.
        """

    def withdraw_reply(self, message_id: str) -> None:
        """Record that a reply was not delivered."""

    def confirm_reply(self, message_id: str) -> None:
        """Record that the broker has confirmed a reply, which ends the run of its message."""


class MessageRuns(ReplyRecords, Protocol):
    """Records which messages this process runs and how it answers them."""

    def begin_run(self, message_id: str) -> None:
        """Record that a message is being run."""

    def interrupted_runs(self, message_id: str) -> int:
        """Return how many runs of a message ended with their process, as far as that was noticed."""

    def was_run_elsewhere(self, message_id: str) -> bool:
        """Return whether another process runs a message, has answered it, or has ended while it ran it."""

    def leave_run(self, message_id: str) -> None:
        """Remove the record that this process runs a message; its runs that were interrupted still count."""

    def end_run(self, message_id: str) -> None:
        """Remove the records of the runs of a message that was answered, or returned to the broker."""

    def runs_elsewhere(self, message_id: str) -> bool:
        """Return whether another process that is alive runs a message; notice those that have died."""

    def reply_to(self, message_id: str) -> RecordedReply | None:
        """Return what any process of the daemon has recorded of the reply to a message."""


class NoRuns:
    """Records nothing."""

    def begin_reply(self, message_id: str, *, failed: bool) -> None:
        """Do nothing."""

    def withdraw_reply(self, message_id: str) -> None:
        """Do nothing."""

    def confirm_reply(self, message_id: str) -> None:
        """Do nothing."""

    def begin_run(self, message_id: str) -> None:
        """Do nothing."""

    def interrupted_runs(self, message_id: str) -> int:
        """Return that no run was interrupted."""
        return 0

    def was_run_elsewhere(self, message_id: str) -> bool:
        """Return that no other process ran it."""
        return False

    def leave_run(self, message_id: str) -> None:
        """Do nothing."""

    def end_run(self, message_id: str) -> None:
        """Do nothing."""

    def runs_elsewhere(self, message_id: str) -> bool:
        """Return that no other process runs it."""
        return False

    def reply_to(self, message_id: str) -> RecordedReply | None:
        """Return that nothing is recorded."""
        return None
