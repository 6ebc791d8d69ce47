"""Schedulers whose claims overlap on one host, with a Placement that over-commits then (its default, on MariaDB)."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
import uuid

import pytest

from scheduler.claims.checks import CapacityCheck
from scheduler.claims.claims import Pass, owner_of
from scheduler.claims.session import Session
from scheduler.hosts.pending import PendingPlacements
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.outcomes import Outcome
from scheduler.placement.providers import read_usage
from tests.integration.placement_fixtures import make_claimer
from tests.unit.selection.requests import make_request, make_spec
from tools.rig import servers
from tools.rig.placement import PlacementProcess
from tools.rig.providers import Provider, create_fleet

pytestmark = pytest.mark.mariadb

SCHEDULERS = 4
CAPACITY = 8
ROUNDS = 3


@pytest.fixture
def url(mysql_url, tmp_path):
    with (
        servers.made_database(mysql_url, "overlapping") as database,
        PlacementProcess(database, log=tmp_path / "placement.log") as url,
    ):
        yield url


class Scheduler:
    """The claims of one process. It checks each."""

    def __init__(self, client):
        self.claimer = make_claimer(client)
        self.check = CapacityCheck(lambda _: {}, partial(read_usage, client), others=8)

    def claim(self, provider, instance):
        """Return whether an instance got one unit of a provider."""
        entries = {provider: {"resources": {"VCPU": 1}}}
        candidate = AllocationCandidate.of(provider, (provider,), entries, {"": [provider]})
        request = make_request(make_spec(project_id="project", user_id="user"), [instance])
        of_pass = Pass(owner_of(request), capacity=self.check)
        claims = Session(self.claimer, PendingPlacements(), request, lambda *_: of_pass)
        claims.begin(None, request)
        with claims:
            result = claims.claim({instance: candidate})[instance]
            assert result.outcome in {Outcome.DONE, Outcome.REFUSED, Outcome.CONTENDED}, result
        claims.keep()
        return result.done


def test_claims_that_overlap_leave_no_host_over_its_capacity(url, connect):
    schedulers = [Scheduler(connect(url)) for _ in range(SCHEDULERS)]
    providers = [str(uuid.uuid4()) for _ in range(ROUNDS)]
    create_fleet(url, [Provider(one, one, {"VCPU": {"total": CAPACITY}}) for one in providers])
    read = partial(read_usage, connect(url))
    with ThreadPoolExecutor(SCHEDULERS) as pool:
        for provider in providers:
            each = [
                pool.submit(lambda one: [one.claim(provider, str(uuid.uuid4())) for _ in range(4)], scheduler)  # noqa: B023 - it ends in the round
                for scheduler in schedulers
            ]
            granted = sum(sum(future.result()) for future in each)
            used = read(provider)["VCPU"].used
            assert (granted, used <= CAPACITY) == (used, True)
    assert all(scheduler.claimer.is_settled() for scheduler in schedulers)
