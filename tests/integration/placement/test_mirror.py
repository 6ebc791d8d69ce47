"""The mirror against a real Placement: the hosts that it offers and does not refuse are those of Placement."""

import random
from types import SimpleNamespace
from urllib.parse import urlencode
import uuid

import pytest
import requests

from scheduler.operators.status.upgrade_check import cut_answers
from scheduler.placement.candidates import FetchCandidates
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import PlainQuery, plain_query
from scheduler.request.query import MICROVERSION, Query
from tests.integration.placement.random_clouds import (
    TRAITS,
    fill_some,
    make_cloud,
    make_query,
    random_part,
)
from tests.integration.placement_fixtures import make_claimer, request_for
from tests.support.campaigns import numbers
from tools.rig.placement import PlacementProcess
from tools.rig.providers import HEADERS, Provider, create_fleet

QUERIES = 40
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


class Others:
    """Somebody else who changes the providers of a cloud."""

    def __init__(self, url, rng, aggregates, providers):
        self.url, self.rng, self.aggregates = url, rng, aggregates
        self.nodes = {one.uuid: dict(one.inventories) for one in providers if "MEMORY_MB" in one.inventories}

    def change(self):
        node = self.rng.choice(list(self.nodes))
        getattr(self, self.rng.choice(["traits", "ratio", "reserve", "move", "claim", "claim", "new"]))(node)

    def _send(self, method, path, body=None):
        answer = requests.request(method, f"{self.url}{path}", json=body, headers=HEADERS, timeout=10)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else {}

    def _put(self, node, what, **body):
        path = f"/resource_providers/{node}"
        generation = self._send("GET", path)["generation"]
        self._send("PUT", f"{path}/{what}", {**body, "resource_provider_generation": generation})

    def traits(self, node):
        self._put(node, "traits", traits=random_part(self.rng, TRAITS))

    def move(self, node):
        self._put(node, "aggregates", aggregates=random_part(self.rng, self.aggregates))

    def ratio(self, node):
        memory = self.nodes[node]["MEMORY_MB"] | {"allocation_ratio": self.rng.choice([0.5, 1.0, 2.0])}
        self._inventory(node, memory)

    def reserve(self, node):
        self._inventory(node, self.nodes[node]["MEMORY_MB"] | {"reserved": self.rng.choice([0, 1024, 2000])})

    def _inventory(self, node, memory):
        self.nodes[node]["MEMORY_MB"] = memory
        self._put(node, "inventories", inventories=self.nodes[node])

    def claim(self, node):
        """Let an instance hold something, which may be refused, and perhaps give it back by PUT."""
        instance = f"{self.url}/allocations/{uuid.UUID(int=self.rng.getrandbits(128))}"
        body = {"project_id": "p", "user_id": "u", "consumer_generation": None}
        held = {node: {"resources": {"MEMORY_MB": self.rng.choice([256, 1024])}}}
        headers = HEADERS | {"OpenStack-API-Version": "placement 1.36"}
        answer = requests.put(instance, json=body | {"allocations": held}, headers=headers, timeout=10)
        if answer.status_code == 204 and self.rng.random() < 0.5:
            empty = body | {"allocations": {}, "consumer_generation": 1}
            assert requests.put(instance, json=empty, headers=headers, timeout=10).status_code == 204

    def new(self, node):
        """Delete a node if nothing is on it, and make another one."""
        path = f"{self.url}/resource_providers/{node}"
        if requests.delete(path, headers=HEADERS, timeout=10).status_code == 204:
            del self.nodes[node]
        other = str(uuid.UUID(int=self.rng.getrandbits(128)))
        made = Provider(f"new {other}", other, {"MEMORY_MB": {"total": 4096}})
        create_fleet(self.url, [made])
        self.nodes[made.uuid] = {"MEMORY_MB": {"total": 4096}}


@pytest.mark.parametrize("number", numbers(1, 50))
def test_hosts_that_are_offered_and_not_refused_are_those_of_placement(
    tmp_path, connect, campaign_seed, number
):
    rng = random.Random(campaign_seed + number)
    aggregates, providers = make_cloud(rng, 30)
    with PlacementProcess(tmp_path / "placement.db") as url:
        create_fleet(url, providers)
        fill_some(url, rng, providers)
        client = connect(url)
        fetch, mirror = FetchCandidates(client), CandidateMirror(client, lambda: INTERVAL)
        others = Others(url, rng, aggregates, providers)
        mirror.run_round()
        sizes, late = [], 0
        for place in range(QUERIES):
            if place % 3 == 1:  # a query right after a round, and two with changes since
                mirror.run_round()
            else:
                others.change()
            query = make_query(rng, aggregates)
            asked = fetch(query, None)
            assert not asked.failed, (place, query.querystring, asked.reason)
            found, checked = offered(mirror, query)
            assert checked <= set(asked.by_root), (place, query.querystring)
            if place % 3 == 1:
                assert found == set(asked.by_root), (place, query.querystring)
            late += len(set(asked.by_root) - checked)
            sizes.append(len(checked))
        assert max(sizes) > 8
        assert min(sizes) == 0
        assert late < 20


def test_nodes_that_the_wide_question_does_not_name_are_known_too(tmp_path, connect):
    rng = random.Random(7)
    aggregates, providers = make_cloud(rng, 24, unit_limits=True)
    with PlacementProcess(tmp_path / "placement.db") as url:
        create_fleet(url, providers)
        client = connect(url)
        fetch, mirror = FetchCandidates(client), CandidateMirror(client, lambda: INTERVAL)
        for _ in range(4):
            mirror.run_round()
        for _ in range(20):
            query = make_query(rng, aggregates)
            assert set(fetch(query, None).by_root) <= offered(mirror, query)[1], query.querystring


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
    # Its last change was a moment before it was read: the time of that proves nothing.
    assert [reads_of_a_check(mirror, noting, root) for root in roots] == [1, 2]


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
    assert "No such trait" in FetchCandidates(client)(query, None).rejection
    assert mirror.find([query]) is None
    pairs = (("required", "!HW_CPU_X86_AVX512F"), ("resources", "MEMORY_MB:512"))
    assert mirror.find([Query(pairs, urlencode(pairs), None)]) is not None
