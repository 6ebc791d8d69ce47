"""The builds of a cloud in partitions: what is asked for, by many callers at once."""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
import random
import threading
import uuid

import sqlalchemy as sa

from conductor_client import journal
from conductor_client.super_conductor import SuperConductor
from scheduler.rpc.context import RequestContext
from tools.rig.load import PROJECT, USER, BootRequest, random_requests, random_uuid
from tools.rig.rows import ApiRows

#: Share of the requests for several instances, and of those for an anti-affinity group.
LARGE_SHARE, GROUP_SHARE = 0.05, 0.05
#: How many instances these are for, at least and at most.
LARGE, GROUP = (2, 8), (2, 5)

#: How often an instance is asked for once more whose alternates are used up.
MOST_TRIES = 3
#: Seconds for all builds that were asked for, once they have hosts.
BUILD_TIMEOUT = 600


def make_requests(instances: int, seed: int) -> list[BootRequest]:
    """Return requests for so many instances; the same seed gives the same ones."""
    rng = random.Random(seed)
    plain = random_requests(rng)
    requests: list[BootRequest] = []
    while instances:
        made = list(_varied(next(plain), rng, instances))
        instances -= sum(len(each.uuids) for each in made)
        requests += made
    return requests


def _varied(plain: BootRequest, rng: random.Random, most: int) -> Iterator[BootRequest]:
    kind, grouped = rng.random(), LARGE_SHARE + GROUP_SHARE
    if kind >= grouped:
        yield plain
        return
    size = rng.randint(*(LARGE if kind < LARGE_SHARE else GROUP))
    uuids = [random_uuid(rng) for _ in range(min(most, size))]
    if kind < LARGE_SHARE:
        yield replace(plain, uuids=uuids)
        return
    # All members in one request, or each in its own, which callers then send at about the same time
    for part in [uuids] if rng.random() < 0.5 else [[member] for member in uuids]:
        yield replace(plain, uuids=part, group=uuids)


class Builds:
    """Callers that play the super-conductor's clients.

    Attributes:
        requests: What was asked for so far.
        placed: Number of instances for which the scheduler has answered.
    """

    def __init__(self, conductor: SuperConductor, callers: int, database: sa.Engine) -> None:
        """Ask from a number of callers; ``database`` is nova's API database, in which instances are noted."""
        self.requests: list[BootRequest] = []
        self.placed = 0
        self._rows = ApiRows(database)
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
        self._rows.requested(uuids)
        self._conductor.build_instances(context, request.spec(), uuids)
        records = self._conductor.journal.records(uuids)
        self._rows.ended(uuids, [one.instance_uuid for one in records if one.state != journal.ERROR])
        with self._lock:
            self.placed += len(request.uuids)


def again(requests: Iterable[BootRequest], records: Iterable[journal.Record]) -> Iterator[BootRequest]:
    """Yield requests for new instances in the place of those that failed on every host they were given."""
    known = {record.instance_uuid: record for record in records}
    for request in requests:
        for record in (known[instance] for instance in request.uuids):
            if record.state == journal.ERROR and record.attempts:
                failed = {event.host for event in record.events if event.host}
                new = str(uuid.uuid4())
                group = [*request.group, new] if request.group else ()
                excluded = sorted(failed.union(request.excluded))
                yield replace(request, uuids=[new], group=group, excluded=excluded)
