"""The builds of a run: what is asked for, and asking for it from many callers at once."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import random
import threading
import uuid

import sqlalchemy as sa

from conductor_client import journal
from conductor_client.super_conductor import SuperConductor
from scheduler.nova_db.schema import build_requests, cell_mappings, instance_mappings
from scheduler.rpc.context import RequestContext
from tools.rig.fleet import ZONES
from tools.rig.load import FLAVORS, PROJECT, USER, ZONE_SHARE, BootRequest

#: Share of the requests for several instances, and of those for an anti-affinity group.
LARGE_SHARE, GROUP_SHARE = 0.05, 0.05
#: How many instances these are for, at least and at most.
LARGE, GROUP = (2, 8), (2, 5)

#: How often an instance is asked for once more whose alternates are used up.
MOST_TRIES = 3
#: Seconds for all builds that were asked for, once they have hosts.
BUILD_TIMEOUT = 600


def make_requests(instances: int, seed: int) -> list[BootRequest]:
    """Return requests for so many instances; the same seed gives the same ones but for their UUIDs."""
    rng = random.Random(seed)
    requests: list[BootRequest] = []
    while instances:
        made = list(_make(rng, instances))
        instances -= sum(len(each.uuids) for each in made)
        requests += made
    return requests


def _make(rng: random.Random, most: int) -> Iterator[BootRequest]:
    flavor = rng.choices(FLAVORS, [share for share, *_ in FLAVORS])[0]
    zone = rng.choice(ZONES) if rng.random() < ZONE_SHARE else None
    drawn = rng.random()
    if drawn < LARGE_SHARE:
        yield BootRequest(_new_uuids(min(most, rng.randint(*LARGE))), flavor, zone)
    elif drawn < LARGE_SHARE + GROUP_SHARE:
        members = _new_uuids(min(most, rng.randint(*GROUP)))
        # All members in one request, or each in its own, which callers then send at about the same time
        for uuids in [members] if rng.random() < 0.5 else [[member] for member in members]:
            yield BootRequest(uuids, flavor, zone, group=members)
    else:
        yield BootRequest(_new_uuids(1), flavor, zone)


class Building:
    """Callers that play the super-conductor's clients.

    Attributes:
        requests: What was asked for so far.
        placed: Number of instances for which the scheduler has answered.
    """

    def __init__(self, conductor: SuperConductor, callers: int, database: sa.Engine) -> None:
        """Ask from a number of callers; ``database`` is nova's API database, in which instances are noted."""
        self._database = database
        self.requests: list[BootRequest] = []
        self.placed = 0
        self._conductor = conductor
        self._callers = callers
        self._lock = threading.Lock()

    def build(self, requests: Sequence[BootRequest]) -> bool:
        """Ask for instances, and once more for those whose alternates are used up, without the failed hosts.

        nova does not ask again by itself: its users do, so these are new instances.

        Returns:
            Whether all builds have come to an end in time.
        """
        for _ in range(MOST_TRIES):
            if not self._ask(requests):
                return False
            requests = list(again(requests, self._conductor.journal.records()))
            if not requests:
                break
        return True

    def _ask(self, requests: Sequence[BootRequest]) -> bool:
        self.requests += requests
        pool = ThreadPoolExecutor(self._callers)
        try:
            for _ in pool.map(self._call, requests):
                pass
        finally:
            pool.shutdown(wait=False, cancel_futures=True)  # an interrupt ends the run, not all its requests
        uuids = [instance for request in requests for instance in request.uuids]
        return self._conductor.journal.wait(uuids, BUILD_TIMEOUT)

    def _call(self, request: BootRequest) -> None:
        context = RequestContext(user_id=USER, project_id=PROJECT, roles=["member", "reader"])
        uuids = list(request.uuids)
        self._note_waiting(uuids)
        self._conductor.build_instances(context, request.spec(), uuids)
        self._note_over({one.instance_uuid: one.state for one in self._conductor.journal.records(uuids)})
        with self._lock:
            self.placed += len(request.uuids)

    def _note_waiting(self, uuids: Sequence[str]) -> None:
        """Note instances as nova's API does before it asks for a build."""
        rows = [{"instance_uuid": uuid, "project_id": PROJECT} for uuid in uuids]
        with self._database.begin() as connection:
            connection.execute(instance_mappings.insert(), rows)
            connection.execute(build_requests.insert(), rows)

    def _note_over(self, states: Mapping[str, str]) -> None:
        """Note that nobody waits for hosts of instances, as a super-conductor does."""
        mapped, wanted = instance_mappings.c, build_requests.c
        placed = [uuid for uuid, state in states.items() if state != journal.ERROR]
        cell = sa.select(sa.func.max(cell_mappings.c.id)).scalar_subquery()
        with self._database.begin() as connection:
            connection.execute(
                instance_mappings.update().where(mapped.instance_uuid.in_(placed)).values(cell_id=cell)
            )
            connection.execute(build_requests.delete().where(wanted.instance_uuid.in_(states)))


def again(requests: Iterable[BootRequest], records: Iterable[journal.Record]) -> Iterator[BootRequest]:
    """Yield requests for new instances in the place of those that failed on every host they were given."""
    known = {record.instance_uuid: record for record in records}
    for request in requests:
        for instance in request.uuids:
            record = known[instance]
            if record.state == journal.ERROR and record.attempts:
                failed = {event.host for event in record.events if event.host}
                (new,) = uuids = _new_uuids(1)
                group = [*request.group, new] if request.group else ()
                yield replace(
                    request, uuids=uuids, group=group, excluded=sorted(failed.union(request.excluded))
                )


def _new_uuids(count: int) -> list[str]:
    return [str(uuid.uuid4()) for _ in range(count)]
