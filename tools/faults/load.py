"""Callers that ask for hosts all the time, and what each of them was told."""

from collections.abc import Iterable, Mapping, Sequence
import contextlib
from dataclasses import dataclass, field
import random
import threading
import time
from typing import Any
import uuid

import oslo_messaging as messaging
import sqlalchemy as sa

from conductor_client.client import SchedulerClient
from conductor_client.errors import NoValidHost
from scheduler import objects
from scheduler.nova_db.schema import build_requests, instance_mappings
from scheduler.rpc.context import RequestContext

CALLERS = 4
CLEAN = 4.0  # seconds of usual service after which it counts as restored
LONGEST_PAUSE = 0.3  # seconds between two requests of a caller
CALL_TIMEOUT = 150.0  # seconds for which a caller waits
AMOUNTS = {"VCPU": 1, "MEMORY_MB": 512, "DISK_GB": 1}


@dataclass
class Call:
    """One request, and how it ended.

    Attributes:
        uuids: The instances.
        sent: When it was sent, in seconds of ``time.monotonic``.
        ended: When it ended; None while it waits.
        nodes: The host of each instance, as the reply named them; none after an error.
        error: The name of the error that ended it; empty if hosts were chosen.
    """

    uuids: list[str]
    sent: float
    ended: float | None = None
    nodes: list[str] = field(default_factory=list)
    error: str = ""

    @property
    def unanswered(self) -> bool:
        """Whether the caller got neither hosts nor an error of the scheduler."""
        return self.ended is None or self.error == "MessagingTimeout"

    @property
    def seconds(self) -> float:
        """How long it took; the longest time if it waits."""
        return CALL_TIMEOUT if self.ended is None else self.ended - self.sent

    def served(self, limit: float) -> bool:
        """Return whether it got hosts within so many seconds."""
        return bool(self.nodes) and self.seconds <= limit


class Requested:
    """What nova's API database says of instances whose callers wait, as the API writes it before a build."""

    def __init__(self, connection: str) -> None:
        """Write to the API database behind a URL."""
        self._engine = sa.create_engine(connection, pool_pre_ping=True)

    def begin(self, uuids: Sequence[str]) -> None:
        """Write that a caller waits for hosts of these instances; as far as the database takes it."""
        rows = [{"instance_uuid": uuid, "project_id": "project"} for uuid in uuids]
        self._execute((instance_mappings.insert(), rows), (build_requests.insert(), rows))

    def give_up(self, uuids: Sequence[str]) -> None:
        """Write that the builds of these instances were given up."""
        gone = build_requests.delete().where(build_requests.c.instance_uuid.in_(uuids))
        self._execute((gone, None))

    def _execute(self, *statements: tuple[Any, Any]) -> None:
        with contextlib.suppress(sa.exc.SQLAlchemyError), self._engine.begin() as connection:
            for statement, rows in statements:
                connection.execute(statement, rows)


class Load:
    """Callers in threads of their own, from ``start`` to ``stop``.

    Attributes:
        calls: All calls since ``start``.
    """

    def __init__(
        self, scheduler: SchedulerClient, rng: random.Random, requested: Requested, callers: int = CALLERS
    ) -> None:
        """Send requests to the schedulers behind a client, by so many callers."""
        self._callers = callers
        self._requested = requested
        self.calls: list[Call] = []
        self._scheduler = scheduler
        self._rng = rng
        self._stopping = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin, with no calls so far."""
        self.calls = []
        self._stopping.clear()
        for _ in range(self._callers):
            rng = random.Random(self._rng.random())
            thread = threading.Thread(target=self._call_on, args=(rng,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """Send no more requests, and wait until all have ended."""
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._threads.clear()

    def _call_on(self, rng: random.Random) -> None:
        while not self._stopping.wait(rng.uniform(0, LONGEST_PAUSE)):
            count = rng.choice((1, 1, 2, 3))
            call = Call([_uuid(rng) for _ in range(count)], time.monotonic())
            self.calls.append(call)
            self._send(call)
            call.ended = time.monotonic()

    def _send(self, call: Call) -> None:
        context = RequestContext(user_id="user", project_id="project")
        self._requested.begin(call.uuids)
        try:
            selections = self._scheduler.select_destinations(context, _spec(call.uuids), call.uuids)
        except NoValidHost:
            call.error = "NoValidHost"
        except messaging.RemoteError as error:
            call.error = error.exc_type
        except messaging.MessagingException as error:
            call.error = type(error).__name__
        else:
            call.nodes = [chosen.nodename for chosen, *_ in selections]
        if call.error:
            self._requested.give_up(call.uuids)


def recovery_time(calls: Iterable[Call], healed: float, limit: float) -> float:
    """Return the seconds from healing until the service was as before.

    That is when the first request that was sent after healing was served, and the last one ended that was not
    served within the limit.
    """
    later = [call for call in calls if call.sent >= healed]
    late = [call.sent + call.seconds for call in later if not call.served(limit)]
    first = min((call.sent + call.seconds for call in later if call.served(limit)), default=healed)
    return max(first, *late) - healed if late else first - healed


def is_as_usual(calls: Iterable[Call], healed: float, now: float, limit: float) -> bool:
    """Return whether the last requests after healing were served within the limit, and no older one waits."""
    known = list(calls)
    recent = [call for call in known if call.sent > max(healed, now - CLEAN)]
    older = [call for call in known if call.sent <= now - max(CLEAN, limit)]
    return (
        now - healed >= CLEAN
        and any(call.served(limit) for call in recent)
        and all(call.served(limit) or call.ended is None for call in recent)
        and all(call.ended is not None for call in older)
    )


def expected_allocations(
    calls: Iterable[Call], providers: Mapping[str, str]
) -> dict[str, tuple[str, Mapping[str, int]]]:
    """Return what each answered instance must hold: instance UUID -> (provider UUID, amounts).

    Args:
        calls: What was asked and answered.
        providers: Node name -> provider UUID.
    """
    return {
        instance: (providers[node], AMOUNTS)
        for call in calls
        for instance, node in zip(call.uuids, call.nodes, strict=False)
    }


def _uuid(rng: random.Random) -> str:
    return str(uuid.UUID(int=rng.getrandbits(128), version=4))


def _spec(uuids: list[str]) -> objects.RequestSpec:
    flavor = objects.Flavor(
        id=1,
        name="tiny",
        flavorid="1",
        vcpus=AMOUNTS["VCPU"],
        memory_mb=AMOUNTS["MEMORY_MB"],
        root_gb=AMOUNTS["DISK_GB"],
        ephemeral_gb=0,
        swap=0,
        extra_specs={},
    )
    return objects.RequestSpec(
        instance_uuid=uuids[0],
        num_instances=len(uuids),
        flavor=flavor,
        image=objects.ImageMeta(
            name="image", disk_format="qcow2", properties=objects.ImageMetaProps.from_dict({})
        ),
        availability_zone=None,
        project_id="project",
        user_id="user",
        instance_group=None,
        scheduler_hints={},
        pci_requests=objects.InstancePCIRequests(requests=[]),
        numa_topology=None,
    )
