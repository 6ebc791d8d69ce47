"""The queues that a connection reads from, and pauses."""
# ruff: noqa: SLF001 - private names of oslo.messaging, see scheduler/rpc/amqp/__init__.py

from collections.abc import Collection

from oslo_log import log as logging
from oslo_messaging._drivers import impl_rabbit

LOG = logging.getLogger(f"nova.{__name__}")


class Consumers:
    """The consumers of a connection. For its reading thread; any thread may read whether they are paused.

    Attributes:
        always_read: Those that a pause leaves alone: of casts to all schedulers.
    """

    def __init__(self, connection: impl_rabbit.Connection) -> None:
        """Begin with those that ``connection`` of oslo.messaging has."""
        self.always_read: Collection[impl_rabbit.Consumer] = ()
        self._connection = connection
        self._parked: list[impl_rabbit.Consumer] = []

    @property
    def paused(self) -> bool:
        """Whether no calls are read."""
        return bool(self._parked)

    def pause(self) -> None:
        """Read no more calls until ``resume``."""
        consumers = self._connection._consumers
        for consumer in [each for each in consumers if each not in self.always_read]:
            # before it is cancelled: what arrives meanwhile is returned
            self._parked.append(consumer)
            tag = consumers.pop(consumer)
            self._connection._new_tags.discard(tag)
            _cancel(consumer, tag)

    def resume(self) -> None:
        """Read calls again."""
        parked, self._parked = self._parked, []
        for consumer in parked:
            # Not by its old tag: a quorum queue may end the connection when calls that this tag got before
            # the pause are acknowledged. And not by declare_consumer: if the connection is lost meanwhile,
            # only this consumer would read again.
            tag = next(self._connection._tags)
            self._connection._consumers[consumer] = tag
            self._connection._new_tags.add(tag)

    def cancel(self) -> None:
        """Read nothing more."""
        for consumer, tag in self._connection._consumers.items():
            _cancel(consumer, tag)


def _cancel(consumer: impl_rabbit.Consumer, tag: int) -> None:
    try:
        consumer.cancel(tag)
    except Exception as error:  # noqa: BLE001 - the connection is lost, and nothing is consumed
        LOG.info("Cannot cancel a consumer: %s", error)
