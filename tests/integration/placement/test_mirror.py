"""The mirror against a real Placement: the hosts that it offers and does not refuse are those of Placement."""

from contextlib import contextmanager
import random
from types import SimpleNamespace
from urllib.parse import urlencode
import uuid

import pytest
import requests
import sqlalchemy as sa

from scheduler.operators.upgrade_check import cut_answers
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import CLASSES, PlainQuery, plain_query
from scheduler.request.query import MICROVERSION, Query
from tests.integration.changing_cloud import FIELDS, Changes
from tests.integration.placement_fixtures import make_claimer, request_for
from tests.support.campaigns import numbers
from tools.rig.draw import TRAITS, Kinds, draw
from tools.rig.fleet import Cell
from tools.rig.instances import fill_placement
from tools.rig.memory import host_table
from tools.rig.placement import PlacementProcess, placement_of
from tools.rig.providers import HEADERS, Provider, create_fleet, database_url, fill

#: Of so few hosts the mirror reads the limits of each.
FEW, MANY, QUERIES = 13, 30, 40
INTERVAL = 8.0


class NotingClient:
    """A client that notes the paths of GETs."""

    def __init__(self, client):
        self.client = client
        self.asked = []

    def get(self, path, *args, **kwargs):
        self.asked.append(path)
        return self.client.get(path, *args, **kwargs)

    def write(self, *args, **kwargs):
        return self.client.write(*args, **kwargs)


def offered(mirror, query):
    """The hosts that the mirror offers, and those of them that pass the check."""
    answer = mirror.find([query])
    nodes = [answer.uuids[row] for row in answer.rows]
    return set(nodes), {node for node in nodes if not mirror.check(answer, None)([node])}


def make_query(rng, fleet):
    """A query as nova's and further ones, with members of aggregates and traits of roots."""
    amounts = {"MEMORY_MB": rng.choice([256, 1024, 2048, 14000]), "VCPU": rng.choice([1, 4, 9, 20])}
    if rng.random() < 0.5:
        amounts["DISK_GB"] = rng.choice([1, 20])
    if rng.random() < 0.2:
        amounts["PCPU"] = rng.choice([1, 4])
    pairs = [("resources", ",".join(f"{name}:{amount}" for name, amount in sorted(amounts.items())))]
    for name in ("required", "root_required"):
        if rng.random() < 0.3:
            trait = rng.choice(TRAITS)
            pairs.append((name, f"!{trait}" if rng.random() < 0.5 else trait))
    aggregates = [each.uuid for each in fleet.aggregates]
    if rng.random() < 0.4:
        pairs.append(("member_of", "in:" + ",".join(rng.sample(aggregates, 2))))
    if rng.random() < 0.2:
        pairs.append(("member_of", "!in:" + rng.choice(aggregates)))
    return Query(tuple(pairs), "&".join(f"{name}={value}" for name, value in pairs), None)


@contextmanager
def drawn(directory, rng, hosts, **kinds):
    """The URL of a Placement with a random cloud, and the cloud."""
    with placement_of(directory) as (url, database):
        fleet = draw(rng, [Cell("cell1", "")], Kinds((hosts, hosts), **kinds))
        fill(database, fleet.providers())
        fill_placement(sa.create_engine(database_url(database), poolclass=sa.NullPool), fleet.placed)
        yield url, fleet


@pytest.mark.parametrize("number", numbers(1, 50))
def test_hosts_that_are_offered_and_not_refused_are_those_of_placement(
    tmp_path, connect, campaign_seed, number
):
    rng = random.Random(campaign_seed + number)
    with drawn(tmp_path, rng, FEW, without=frozenset({"pools"})) as (url, fleet):
        client = connect(url)
        source = CandidateSource(client)
        mirror = CandidateMirror(
            client, lambda: INTERVAL, totals=lambda uuids: host_table(fleet).totals(uuids, CLASSES)
        )
        others = Changes(url, rng, fleet)
        others.fields = {name: FIELDS[name] for name in ("allocation_ratio", "reserved")}
        changes = [
            *(others.change_trait, others.change_inventory, others.change_inventory, others.move_aggregates),
            *(others.claim_by_another, others.claim_by_another, others.delete_by_put),
            *(others.make_host, others.delete_host),
        ]
        mirror.run_round()
        sizes, late = [], 0
        for place in range(QUERIES):
            if place % 3 == 1:  # a query right after a round, and two with changes since
                mirror.run_round()
            else:
                rng.choice(changes)()
            query = make_query(rng, fleet)
            asked = source.fetch([query], None)
            assert not asked.failed, (place, query.querystring, asked.reason)
            found, checked = offered(mirror, query)
            assert checked <= set(asked.by_root), (place, query.querystring, others.history[-3:])
            if place % 3 == 1:
                assert found == set(asked.by_root), (place, query.querystring)
            late += len(set(asked.by_root) - checked)
            sizes.append(len(checked))
        assert max(sizes) > 5
        assert min(sizes) == 0
        assert late < 20


def test_nodes_that_the_wide_question_does_not_name_are_known_too(tmp_path, connect):
    rng = random.Random(7)
    with drawn(tmp_path, rng, MANY, without=frozenset({"pools"})) as (url, fleet):
        client = connect(url)
        source, mirror = CandidateSource(client), CandidateMirror(client, lambda: INTERVAL)
        for _ in range(4):
            mirror.run_round()
        for _ in range(20):
            query = make_query(rng, fleet)
            assert set(source.fetch([query], None).by_root) <= offered(mirror, query)[1], query.querystring


def test_an_answer_that_placement_cuts_is_reported_and_completed(tmp_path, connect, monkeypatch, caplog):
    monkeypatch.setenv("OS_PLACEMENT__MAX_ALLOCATION_CANDIDATES", "3")
    memory = {"MEMORY_MB": {"total": 4096}}
    nodes = [Provider(f"node{number}", str(uuid.UUID(int=number)), memory) for number in range(1, 9)]
    with PlacementProcess(tmp_path / "placement.db") as url:
        create_fleet(url, nodes)
        client = connect(url)
        mirror = CandidateMirror(client, lambda: INTERVAL)
        mirror.run_round()
        assert "Placement names 3 of 8 compute nodes with free memory in one answer" in caplog.text
        query = SimpleNamespace(params=(("resources", "MEMORY_MB:512"),))
        assert mirror.find([query]) is None
        mirror.run_round()
        assert offered(mirror, query)[0] == {node.uuid for node in nodes}
        headers = HEADERS | {"OpenStack-API-Version": f"placement {MICROVERSION}"}
        (row,) = cut_answers(lambda path: requests.get(f"{url}{path}", headers=headers, timeout=10))
        assert row.detail == "One response has 3 of 8 compute nodes with free memory"


@pytest.fixture(scope="module")
def placement_url(tmp_path_factory):
    """A Placement without the nested and sharing providers of other modules, which stop the mirror."""
    with PlacementProcess(tmp_path_factory.mktemp("placement") / "placement.db") as url:
        yield url


@pytest.fixture
def own(cloud, client):
    """Two hosts, a mirror that knows them, and a claimer that tells it of its writes."""
    roots = cloud.make(2)
    noting = NotingClient(client)
    mirror = CandidateMirror(noting, lambda: INTERVAL)
    mirror.run_round()
    claimer = make_claimer(noting, written=mirror.known.written)
    answer = mirror.find([cloud_query()])
    yield roots, mirror, claimer, noting, lambda root: answer.candidates(root)[0]
    assert claimer.is_settled()


def cloud_query():
    class Wanted:
        params = (("resources", "VCPU:1,MEMORY_MB:512"),)

    return Wanted


def reads_of_a_check(mirror, noting, root):
    noting.asked.clear()
    assert mirror.check(mirror.known.find(plain_query(cloud_query())), None)([root]) == {}
    return len(noting.asked)


def test_own_writes_are_expected_and_those_of_others_are_not(own, cloud):
    roots, mirror, claimer, noting, candidate = own
    one, several = str(uuid.uuid4()), [str(uuid.uuid4()) for _ in range(3)]
    assert claimer.claim(request_for(one, candidate(roots[0]))).done
    results = claimer.claim(
        [request_for(name, candidate(root)) for name, root in zip(several, [*roots, roots[0]], strict=True)]
    )
    assert all(result.done for result in results.values())
    assert [reads_of_a_check(mirror, noting, root) for root in roots] == [1, 1]
    assert mirror.find([cloud_query()]).usage(roots[0])["VCPU"].used == 3
    delete = f"{cloud.url}/allocations/{one}"
    assert requests.delete(delete, headers=HEADERS, timeout=10).status_code == 204
    assert reads_of_a_check(mirror, noting, roots[0]) == 1  # which took nothing
    claimer.release_result(several[1], results[several[1]])
    assert cloud.used(roots[1])["VCPU"] == 0
    assert reads_of_a_check(mirror, noting, roots[1]) == 5
    # An own change a moment before the reading would hide an older time: only the traits are read.
    assert [reads_of_a_check(mirror, noting, root) for root in roots] == [1, 1]


def test_a_refused_write_is_expected_not_to_raise_a_generation(own):
    roots, mirror, claimer, noting, _ = own
    (too_much,) = mirror.find([cloud_query()]).candidates(roots[0])
    many = {f"{uuid.uuid4()}": too_much for _ in range(6)}
    outcomes = [claimer.claim(request_for(name, each)).done for name, each in many.items()]
    assert outcomes == [True] * 4 + [False] * 2
    noting.asked.clear()
    answer = mirror.known.find(PlainQuery({"VCPU": 1, "MEMORY_MB": 512}))
    reason = mirror.check(answer, None)([roots[0]])[roots[0]]
    assert reason.endswith("4 of 4 VCPU are used")
    assert len(noting.asked) == 1


def test_a_query_that_placement_rejects_is_not_answered(own, client):
    _, mirror, _, _, _ = own
    pairs = (("required", "!CUSTOM_NO_SUCH_TRAIT"), ("resources", "MEMORY_MB:512"))
    query = Query(pairs, urlencode(pairs), None)
    assert "No such trait" in CandidateSource(client).fetch([query], None).rejection
    assert mirror.find([query]) is None
    pairs = (("required", "!HW_CPU_X86_AVX512F"), ("resources", "MEMORY_MB:512"))
    assert mirror.find([Query(pairs, urlencode(pairs), None)]) is not None
