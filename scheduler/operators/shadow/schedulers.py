"""Which schedulers of Berth serve: their decision stream is read and not written.

Each of several prefers hosts of its own (``stream.owners``), so that it may choose another host than one that
is alone. Next to nova-scheduler there is no stream, and none is created.
"""

from oslo_config import cfg

from scheduler.conf.partitions import own_name
from scheduler.stream.broker import BrokerOptions, StreamBroker, StreamConnection, stream_of
from scheduler.stream.connected_loop import ConnectedLoop
from scheduler.stream.membership import Membership
from scheduler.stream.records import Member, decode

#: Seconds between two attempts to find a stream, which may never exist.
RETRY_INTERVAL = 30.0

#: Seconds that one round waits for a message, before heartbeats are looked after.
ROUND = 0.5


class Schedulers:
    """The schedulers that are alive, known some seconds after ``start``. Any thread may use it."""

    def __init__(self, broker: StreamBroker) -> None:
        """Connect to nothing yet."""
        self._broker = broker
        self._membership = Membership(Member())
        self._loop = ConnectedLoop(
            "shadow-schedulers", self._subscribe, self._read, lambda _: None, retry_interval=RETRY_INTERVAL
        )

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, options: BrokerOptions) -> "Schedulers":
        """Read the stream of the schedulers that have the same options."""
        return cls(StreamBroker(options, f"berth-shadow {conf.host}", stream_of(own_name(conf))))

    def start(self) -> None:
        """Begin to read."""
        self._loop.start()

    def stop(self) -> None:
        """End it."""
        self._loop.stop()

    def senders(self) -> tuple[str, ...]:
        """Return what identifies those that are alive, in order."""
        return tuple(each.sender for each in self._membership.alive() if each.sender)

    def _subscribe(self) -> StreamConnection:
        connection = self._broker.connect("schedulers", create=False)
        connection.subscribe("next")
        return connection

    def _read(self, connection: StreamConnection) -> float:
        body = connection.receive(ROUND)
        for record in decode(body).records if body is not None else ():
            self._membership.see(record)
        connection.send_heartbeat()
        return 0.0
