"""A process of the protocol, in the place of the product's worker."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import orjson

from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.session import Timeouts
from tools.simulation.callers import State
from tools.simulation.plan import Limits
from tools.simulation.product import AMOUNTS
from tools.simulation.protocol.broker import Broker, Reply
from tools.simulation.protocol.channel import Channel, Delivery
from tools.simulation.protocol.run import Run
from tools.simulation.protocol.spool import Away, Entry, Spool
from tools.simulation.protocol.writing import Writer
from tools.simulation.runtime import Runtime, Task


class Parts:
    """Makes workers; has what ``product.Parts`` has for ``Daemon``.

    Args:
        runtime: For the clock.
        limits: What the history has drawn.
        broker: The model of the broker.
        adapter: Makes a connection to Placement.
        database: Returns how the databases are now.
        state_of: Returns what nova's databases say of an instance.
    """

    def __init__(
        self,
        runtime: Runtime,
        limits: Limits,
        broker: Broker,
        adapter: Callable[[], Any],
        database: Callable[[], str],
        state_of: Callable[[str], State],
    ) -> None:
        self.runtime = runtime
        self.limits = limits
        self.broker = broker
        self.adapter = adapter
        self._database = database
        self._state_of = state_of
        self._spools: dict[int, dict[str, Entry]] = {}

    def make_journal(self) -> Any:
        """Return what a new master finds: the spool files, if there is a ``state_path``."""
        if not self.limits.state_path:
            self._spools = {}
        return SimpleNamespace(durable=self.limits.state_path)

    def of(self, _shared: Any) -> None:
        """Return that workers share nothing."""

    def make_worker(self, number: int, _parts: None) -> "Worker":
        """Return a worker that is not started."""
        return Worker(self, self._spools.setdefault(number, {}))

    def read_database(self) -> str:
        """Wait for the databases, and return how they are.

        Raises:
            Away: They do not answer.
        """
        how = self._database()
        if how == "slow":
            self.runtime.sleep(3.0 * self.runtime.chance.random())
        elif how in {"away", "broken"}:
            raise Away
        return how

    def state_of(self, uuid: str) -> State:
        """Return what nova's databases say of an instance; raises as ``read_database``."""
        self.read_database()
        return self._state_of(uuid)


class Worker:
    """Receives calls and runs them, each in a thread.

    Args:
        parts: What all workers of a host have.
        entries: Its spool file.
    """

    def __init__(self, parts: Parts, entries: dict[str, Entry]) -> None:
        self.runtime = parts.runtime
        self.process = parts.runtime.current.process
        self.stopping = False
        self.batch = parts.limits.batch
        self._parts = parts
        self._broker = parts.broker
        self.channel = Channel(parts.broker, self.process)
        client = PlacementClient(parts.adapter(), Timeouts.of(parts.limits.placement_timeout or None))
        self._client = client
        clock = lambda: self.runtime.clock  # noqa: E731
        self.writer = Writer(client, clock, self.runtime.sleep)
        self.spool = Spool(entries, clock)
        self._queue: list[Run] = []
        self._runs: dict[int, Run] = {}
        self._answered: set[int] = set()
        self._waiting: list[Task] = []
        self._busy: set[str] = set()
        self._ended: list[Task] = []
        self.process.at_exit.append(lambda: self._broker.disconnected(self.process))

    # -- life ------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Serve until the process ends."""
        for number in range(self._parts.limits.threads):
            self.runtime.spawn(self.process, f"pool-{number}", self._serve)
        self.runtime.spawn(self.process, "heartbeats", self._send_heartbeats)
        self.runtime.spawn(self.process, "spool", self._work_spool)
        while (delivery := self.channel.take(lambda: self.stopping)) is not None:
            self._receive(delivery)
        self.runtime.wait(self._ended)

    def terminate(self) -> None:
        """Stop receiving, return what has not begun, and wait for the rest as long as the options say."""
        self.stopping = True
        self._broker.wake_consumers()
        for run in self._queue:
            self._runs.pop(run.delivery.message.number, None)
            self.channel.requeue(run.delivery)
        self._queue.clear()
        end = self.runtime.clock + self._parts.limits.shutdown_timeout
        while self._runs and self.runtime.clock < end:
            self.runtime.sleep(0.2)
        self.spool.work(self.writer, self.state_of)

    def reload(self) -> None:
        """Do nothing."""

    # -- calls -----------------------------------------------------------------------------------------------

    def _receive(self, delivery: Delivery) -> None:
        number = delivery.message.number
        if number in self._answered:
            self.channel.acknowledge(delivery)
            return
        run = self._runs.get(number)
        if run is not None:
            run.redelivered(delivery)
            return
        self._runs[number] = run = Run(self, delivery, self._parts.limits.long_timeout)
        self._queue.append(run)
        self.runtime.wake_all(self._waiting)

    def _serve(self) -> None:
        while True:
            run = self._next()
            if run is None:
                self.runtime.wait(self._waiting)
                continue
            self._busy |= set(run.uuids)
            try:
                run.serve()
            finally:
                self._busy -= set(run.uuids)
                message = run.delivery.message
                self._runs.pop(message.number, None)
                if message.replies:
                    self._answered.add(message.number)
                self.runtime.wake_all(self._waiting)

    def _next(self) -> Run | None:
        """Take the first run whose instances no other one of this process works on."""
        for run in self._queue:
            if not self._busy & set(run.uuids):
                self._queue.remove(run)
                return run
        return None

    def _send_heartbeats(self) -> None:
        while True:
            self.runtime.sleep(1.0)
            self.channel.note_alive()
            for run in list(self._runs.values()):
                if self._broker.up and self._broker.send(Reply(run.delivery.message)):
                    run.heard_at = self.runtime.clock

    def _work_spool(self) -> None:
        while True:
            self.runtime.sleep(2.0)
            self.spool.work(self.writer, self.state_of)

    # -- what runs need --------------------------------------------------------------------------------------

    def state_of(self, uuid: str) -> State:
        """Return what nova's databases say of an instance.

        Raises:
            Away: They do not answer.
        """
        return self._parts.state_of(uuid)

    def offered(self, deadline: float) -> list[str] | None:
        """Return the nodes with room for one more instance; None: it cannot be told until the deadline."""
        wanted = ",".join(f"{name}:{amount}" for name, amount in AMOUNTS.items())
        while True:
            try:
                if self._parts.read_database() in {"empty", "unmapped"}:
                    return []
                reply = self._client.get(f"/allocation_candidates?resources={wanted}", "1.36")
                if reply.status == 200:
                    return list(reply.data["provider_summaries"])
            except (Away, PlacementSilent, KeyError):
                pass
            if self.runtime.clock >= deadline:
                return None
            self.runtime.sleep(1.0)

    def send(self, reply: Reply) -> bool | None:
        """Send a reply; False: its queue is missing; None: it cannot be sent, or was not confirmed."""
        broker = self._broker
        self.runtime.sleep(0.002 * broker.random.random())
        if not broker.up:
            return None
        if not broker.confirms(reply):
            self.runtime.sleep(5.0 * broker.random.random())
            return None
        return broker.send(reply)

    def fits(self, reply: Reply) -> bool:
        """Return whether the broker takes a reply of this size."""
        return len(orjson.dumps(reply.result)) <= self._broker.largest

    def tell(self, text: str) -> None:
        """Write an event into the trace."""
        self._broker.told(text)
