"""The queues that a connection reads from, and pauses."""

from collections.abc import Callable, Collection
from functools import partial

from oslo_log import log as logging

from scheduler.rpc.amqp import library

LOG = logging.getLogger(f"nova.{__name__}")


class Consumers:
    """The consumers of a connection. For its reading thread; any thread may read whether they are paused.

    Attributes:
        always_read: Those that a pause leaves alone: of casts to all schedulers.
    """

    def __init__(self, connection: library.ConnectionContext) -> None:
        """Begin with those that ``connection`` of oslo.messaging has."""
        self.always_read: Collection[library.Consumer] = ()
        self._connection = connection
        self._parked: list[library.Consumer] = []

    @property
    def paused(self) -> bool:
        """Whether no calls are read."""
        return bool(self._parked)

    def pause(self) -> None:
        """Read no more calls until ``resume``."""
        consumers = library.consumers_of(self._connection)
        for consumer in [each for each in consumers if each not in self.always_read]:
            # before it is cancelled: what arrives meanwhile is returned
            self._parked.append(consumer)
            _cancel(partial(consumer.cancel, library.remove_consumer(self._connection, consumer)))

    def resume(self) -> None:
        """Read calls again."""
        parked, self._parked = self._parked, []
        for consumer in parked:
            library.add_consumer(self._connection, consumer)

    def cancel(self) -> None:
        """Read nothing more."""
        for cancel in library.cancellations(self._connection):
            _cancel(cancel)


def _cancel(cancel: Callable[[], None]) -> None:
    try:
        cancel()
    except Exception as error:  # noqa: BLE001 - the connection is lost, and nothing is consumed
        LOG.info("Cannot cancel a consumer: %s", error)
