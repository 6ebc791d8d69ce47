import logging
import uuid

import pytest

from scheduler.placement.candidates import CandidateSource
from scheduler.placement.providers import read_provider
from scheduler.selection.headroom import Headroom
from tests.integration.placement_fixtures import make_claimer, request_for
from tools.rig.faulty_proxy import drop_after, drop_before, error, html

GET = ("GET", "/allocation_candidates")


@pytest.fixture
def source(client):
    return CandidateSource(client)


def test_flat_hosts(source, cloud):
    roots = cloud.make(3)
    found = source.fetch([cloud.query()], None)
    assert set(found.by_root) == set(roots)
    (candidate,) = found.by_root[roots[0]]
    assert candidate.root == roots[0]
    assert candidate.roots == (roots[0],)
    assert candidate.allocations == {roots[0]: {"resources": {"VCPU": 2, "MEMORY_MB": 1024}}}
    assert candidate.mappings == {"": [roots[0]]}
    assert (found.reason, found.failed, found.truncated) == ("", False, False)
    usage = found.usage(roots[0])
    assert (usage["VCPU"].capacity, usage["VCPU"].used) == (4, 0)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("resources=VCPU%3A1&required=CUSTOM_NOSUCH", "No such trait(s): CUSTOM_NOSUCH."),
        ("resources=CUSTOM_NOSUCH%3A1", "No such resource class CUSTOM_NOSUCH"),
    ],
)
def test_a_query_that_names_what_placement_does_not_know_is_rejected_in_its_words(
    source, cloud, query, words
):
    cloud.make(1)
    found = source.fetch([cloud.query(query)], None)
    assert words in found.rejection
    assert "malformed" not in found.rejection


def test_sharing_provider_is_no_host(source, cloud):
    (root,) = cloud.make(1)
    (disk,) = cloud.make(1, {"DISK_GB": {"total": 100}}, traits=["MISC_SHARES_VIA_AGGREGATE"])
    found = source.fetch([cloud.query("resources=VCPU%3A1%2CDISK_GB%3A10")], None)
    ((found_root, (candidate,)),) = found.by_root.items()
    assert found_root == root
    assert candidate.roots == tuple(sorted([root, disk]))
    assert candidate.allocations.keys() == {root, disk}


def test_everything_from_a_child(source, cloud):
    (root,) = cloud.make(1)
    (child,) = cloud.make(1, {"VGPU": {"total": 2}}, traits=[], parent=root, aggregates=[])
    query = cloud.query("resources=VGPU%3A1")
    found = source.fetch([query], None)
    assert list(found.by_root) == [root]
    assert found.by_root[root][0].allocations.keys() == {child}


FAILURES = {
    "unknown trait": ("resources=VCPU%3A1&required=CUSTOM_NO_SUCH", [], "No such trait(s): CUSTOM_NO_SUCH"),
    "no answer": (None, [drop_before] * 9, "does not respond"),
    "503 of a load balancer": (None, [html(503)], "answers 503: <html>"),
    "503 of Placement": (None, [error(503, "busy")], "answers 503: busy"),
    "not what it says": (None, [html(200)], "cannot be read"),
}


@pytest.mark.parametrize(("text", "faults", "reason"), FAILURES.values(), ids=FAILURES.keys())
def test_failures_are_no_candidates(source, cloud, proxy, caplog, text, faults, reason):
    caplog.set_level(logging.DEBUG)
    cloud.make(1)
    query = cloud.query(text) if text else cloud.query()
    proxy.on(*GET, *faults)
    found = source.fetch([query], None)
    assert found.by_root == {}
    assert found.failed
    assert reason in found.reason
    if "does not respond" in reason:
        assert "Request to Placement failed: " in caplog.text
    else:
        assert "Failed to retrieve allocation candidates from placement API" in caplog.text


def test_connection_closed_while_idle_is_no_failure(source, cloud, proxy):
    cloud.make(1)
    proxy.on(*GET, drop_after)
    assert source.fetch([cloud.query()], None).by_root
    assert proxy.count(*GET) == 2


def test_capacity_is_judged_by_the_summaries(source, cloud, client):
    (root,) = cloud.make(1)
    stale = source.fetch([cloud.query()], None)
    (candidate,) = stale.by_root[root]
    headroom = Headroom(stale.usage)
    headroom.plan(candidate)
    assert headroom.fits(candidate)
    headroom.plan(candidate)
    assert not headroom.fits(candidate)
    claimer = make_claimer(client)
    for _ in range(2):
        assert claimer.claim(request_for(str(uuid.uuid4()), candidate)).done
    fresh = source.fetch([cloud.query("resources=VCPU%3A0")], None)
    assert fresh.failed
    (other,) = cloud.make(1)
    full = source.fetch([cloud.query()], None)
    assert list(full.by_root) == [other]


def test_aggregates_of_a_provider(client, cloud):
    (root,) = cloud.make(1)
    assert read_provider(client, root, "aggregates").aggregates == {cloud.aggregate}
    assert read_provider(client, str(uuid.uuid4()), "aggregates") is None
