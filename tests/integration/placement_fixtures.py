"""Fixtures on a real Placement in a process of its own; each test has hosts of its own in an aggregate of its own.

For the conftest modules of the packages that use them.
"""

import math
from types import SimpleNamespace
from typing import NamedTuple
import uuid

from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
import pytest

from scheduler.claims.claims import Claims, Pass
from scheduler.claims.doubts import NOTHING_KEPT, Kept
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.allocations import Owner
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.client import PlacementClient
from scheduler.placement.session import Timeouts
from scheduler.placement.write_policy import WritePolicy
from scheduler.request.query import Query
from tests.support.waiting import eventually
from tools.rig.faulty_proxy import FaultyProxy
from tools.rig.providers import PlacementAdmin, Provider, create_fleet

# The same rules as a daemon's, with shorter times.
QUICK_WRITES = WritePolicy(
    retry_delay=(0.001, 0.01),
    late_delay=0.1,
    outage_delay=0.1,
    reads_after_reset=(0.0, 0.05, 0.1),
    reads_after_timeout=(0.0, 0.1, 0.2, 0.4),
    late_write_window=0.5,
)


class Request(NamedTuple):
    """A claim for one instance."""

    uuid: str
    candidate: AllocationCandidate
    of: Pass


class OneByOne(Claims):
    """A claimer that takes single requests too, and whose doubts are settled."""

    def claim(self, wanted, *more):
        """As ``Claims.claim``; also for what ``request_for`` returns: for one its result."""
        if isinstance(wanted, Request):
            return self.claim([wanted])[wanted.uuid]
        if isinstance(wanted, list):
            return super().claim({one.uuid: one.candidate for one in wanted}, wanted[0].of)
        return super().claim(wanted, *more)

    def release_result(self, instance, result):
        """Release a claim that was granted."""
        if result.done:
            self.release({instance: result.held}, {instance: result.kept.allocations}, NOTHING_KEPT)

    def is_settled(self):
        """Wait until nothing is in doubt."""
        return eventually(lambda: not len(self.doubts))


def make_claimer(client, **writer):
    """Return the claimer of a process."""
    claimer = OneByOne(AllocationWriter(client, **{"policy": QUICK_WRITES, **writer}))
    claimer.doubts.start()
    return claimer


def put(writer, consumer, write):
    """Write at once, and return what became of it."""
    return writer.write({consumer: write}, until=-math.inf)[consumer]


OWNER = Owner("project", "user")

TIMEOUTS = Timeouts(connect=2.0, read=5.0, search=10.0)

FLAT = {"VCPU": {"total": 4}, "MEMORY_MB": {"total": 4096}}


@pytest.fixture
def proxy(placement_url):
    with FaultyProxy(placement_url) as proxy:
        yield proxy


@pytest.fixture
def connect():
    """URL → client; with the timeouts of a test."""
    sessions = []

    def connect(url, timeouts=TIMEOUTS):
        session = Session(auth=token_endpoint.Token(url, "admin"))
        sessions.append(session)
        return PlacementClient(Adapter(session, service_type="placement", raise_exc=False), timeouts)

    yield connect
    for session in sessions:
        session.session.close()


@pytest.fixture
def client(proxy, connect):
    return connect(proxy.url)


@pytest.fixture
def claimer(client):
    claimer = make_claimer(client)
    yield claimer
    assert claimer.is_settled()


@pytest.fixture
def cloud(placement_url, connect):
    """What goes on behind the proxy: hosts of this test, and what instances hold."""
    writer = AllocationWriter(connect(placement_url))
    admin, aggregate = PlacementAdmin(placement_url), str(uuid.uuid4())

    def make(count=2, inventories=FLAT, **kwargs):
        kwargs.setdefault("aggregates", [aggregate])
        uuids = [str(uuid.uuid4()) for _ in range(count)]
        providers = [Provider(f"host {one}", one, inventories, **kwargs) for one in uuids]
        create_fleet(placement_url, providers)
        return uuids

    def query(text="resources=VCPU%3A2%2CMEMORY_MB%3A1024", limit=None):
        limited = f"&limit={limit}" if limit else ""
        return Query((), f"{text}&member_of={aggregate}{limited}", limit)

    def used(provider):
        return admin.read(f"/resource_providers/{provider}/usages")["usages"]

    def delete(provider):
        admin.call("DELETE", f"/resource_providers/{provider}")

    return SimpleNamespace(
        make=make,
        query=query,
        used=used,
        delete=delete,
        held=writer.reader.read,
        writer=writer,
        aggregate=aggregate,
        url=placement_url,
    )


@pytest.fixture
def candidates(cloud, client):
    """Two hosts with room for two instances each, and one candidate of each."""
    roots = cloud.make(2)
    found = CandidateSource(client).fetch([cloud.query()], None)
    return [found.by_root[root][0] for root in roots]


@pytest.fixture
def instance():
    return str(uuid.uuid4())


def request_for(uuid, candidate, owner=OWNER, evacuating_from=()):
    """The claim of an instance."""
    return Request(uuid, candidate, Pass(owner, kept=Kept(frozenset(evacuating_from))))
