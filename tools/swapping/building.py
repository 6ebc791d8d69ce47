"""Instances that are built all the time, whichever schedulers serve the topic, and what became of each."""

from collections.abc import Callable, Collection, Sequence
import operator
import random
import threading
from typing import Any, Self

import sqlalchemy as sa

from conductor_client.bus import Bus
from conductor_client.client import SchedulerClient
from conductor_client.observers import CellRows
from tools.rig import truth
from tools.rig.cloud import Cloud
from tools.rig.fleet import Cell
from tools.rig.load import CALL_TIMEOUT, Answer, BootRequest, ask, make_requests

#: Requests that a caller has; more than are sent in any run.
MOST_REQUESTS = 10_000


class Building:
    """Callers that ask for hosts as conductors do, from entry to exit of the context.

    A chosen host gets a row for the instance in the database of its cell, and its compute node another usage,
    as its compute writes them.

    Attributes:
        answers: What became of each request so far.
    """

    def __init__(
        self,
        cloud: Cloud,
        bus: Bus,
        callers: int,
        pause: float = 0.2,
        database: Callable[[Cell], str] = operator.attrgetter("database_url"),
    ) -> None:
        """Describe the load.

        Args:
            cloud: Where instances are built.
            bus: Where schedulers answer.
            callers: Number of callers at the same time.
            pause: Seconds between two requests of a caller, at most.
            database: The URL by which computes reach the database of their cell.
        """
        self.answers: list[Answer] = []
        self._cloud = cloud
        self._client = SchedulerClient(bus, timeout=CALL_TIMEOUT)
        self._pause = pause
        self._stopping = threading.Event()
        self._engines = {cell: sa.create_engine(database(cell)) for cell in cloud.fleet.cells}
        self._rows = {cell: CellRows(engine) for cell, engine in self._engines.items()}
        self._hosts = {host.name: host for host in cloud.fleet.hosts}
        self._threads = [
            threading.Thread(target=self._call_on, args=(random.Random(number),), daemon=True)
            for number in range(callers)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Send no more requests, and wait until all are answered."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        for engine in self._engines.values():
            engine.dispose()

    def problems(self, unknown: Collection[str] = ()) -> list[str]:
        """Compare all answers with Placement, once stopped.

        Args:
            unknown: Consumers that are not the load's.

        Returns:
            A line for each request without hosts, each instance that does not hold exactly its amounts, each
            allocation of no instance, and each over-committed inventory.
        """
        expected = {
            instance: (selections[0].compute_node_uuid, answer.request.amounts)
            for answer in self.answers
            for instance, selections in zip(answer.request.uuids, answer.selections, strict=False)
        }
        found = truth.check(self._cloud.placement_url, self._cloud.fleet.providers(), expected, unknown)
        return [*(f"Not served: {answer.error}" for answer in self.answers if answer.error), *found.problems]

    def _call_on(self, rng: random.Random) -> None:
        for request in make_requests(MOST_REQUESTS, rng.randrange(1 << 30)):
            if self._stopping.wait(rng.uniform(0, self._pause)):
                return
            answer = ask(self._client, request)
            self._write(request, answer.selections)
            self.answers.append(answer)

    def _write(self, request: BootRequest, chosen: Sequence[Sequence[Any]]) -> None:
        spec = request.spec()
        for instance, selections in zip(request.uuids, chosen, strict=False):
            host = self._hosts[selections[0].service_host]
            self._rows[host.cell].built(None, instance, host.name, host.nodename, spec)
