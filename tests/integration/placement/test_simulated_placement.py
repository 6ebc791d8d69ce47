"""The simulation's model answers as Placement does, request by request."""

import random

import orjson
import pytest
import requests

from tools.rig.placement import PlacementProcess
from tools.rig.providers import HEADERS, HOST_TRAITS, Provider, create_fleet
from tools.simulation import placement as model

HOSTS = [f"a0000000-0000-4000-8000-{number:012d}" for number in range(3)]
MISSING = "a0000000-0000-4000-8000-00000000dead"
INVENTORY = {"VCPU": 2, "MEMORY_MB": 2048}
ONE = {"VCPU": 1, "MEMORY_MB": 512}
OLD = {"OpenStack-API-Version": "placement 1.28"}


class Real:
    def __init__(self, url):
        self.session = requests.Session()
        self.session.headers.update(HEADERS)
        self.url = url

    def ask(self, method, path, body=None):
        headers = {"OpenStack-API-Version": None} if method == "DELETE" else {}
        if method == "GET" and path.startswith("/allocations"):
            headers = OLD
        reply = self.session.request(method, f"{self.url}{path}", json=body, headers=headers)
        return reply.status_code, reply.json() if reply.content else {}


class Model:
    def __init__(self):
        self.placement = model.Placement([model.Provider(host, dict(INVENTORY)) for host in HOSTS])

    def ask(self, method, path, body=None):
        answer = self._answer(method, path, body)
        return answer.status, orjson.loads(answer.body) if answer.body else {}

    def _answer(self, method, path, body):
        if method == "GET":
            return self.placement.read(path)
        if method == "DELETE":
            return self.placement.delete(path.rpartition("/")[2])
        write = self.placement.write(method, path, orjson.dumps(body))
        for moment in self.placement.moments:
            if write.answer is None:
                moment(write)
        return write.answer


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    inventories = {name: {"total": most} for name, most in INVENTORY.items()}
    providers = [Provider(host, host, inventories, HOST_TRAITS) for host in HOSTS]
    with PlacementProcess(tmp_path_factory.mktemp("placement") / "placement.db") as url:
        create_fleet(url, providers)
        yield Real(url)


def body(hosts, generation, amounts=None):
    allocations = {host: {"resources": amounts or ONE} for host in hosts}
    return {
        "allocations": allocations,
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": generation,
    }


def meaning(reply):
    """What a client can tell from a reply: status, and of an error its code and the sort of its text."""
    status, data = reply
    if status < 400:
        return status, comparable(data)
    error = data["errors"][0]
    text = " ".join(error["detail"].split())
    sorts = ("consumer generation conflict", "exceed the capacity", "does not exist", "Another thread")
    return status, error.get("code") if status == 409 else "", next((s for s in sorts if s in text), "")


def comparable(data):
    allocations = data.get("allocations")
    if allocations is None:
        return data
    held = {provider: entry["resources"] for provider, entry in allocations.items()}
    return held, data.get("consumer_generation"), data.get("project_id"), data.get("user_id")


def uuid_of(number):
    return f"10000000-0000-4000-8000-{number:012d}"


def requests_of(seed):
    """Requests of a made-up client: mostly sensible, sometimes stale."""
    chance = random.Random(seed)
    consumers = [uuid_of(seed * 10 + number) for number in range(3)]
    for _ in range(40):
        uuid = chance.choice(consumers)
        path = f"/allocations/{uuid}"
        kind = chance.choice(["put", "put", "put", "empty", "post", "delete", "get"])
        generation = chance.choice([None, None, 0, 1, 2])
        hosts = chance.sample(HOSTS, chance.choice([1, 1, 2]))
        if chance.random() < 0.15:
            hosts = [MISSING]
        if kind == "put":
            amounts = ONE if chance.random() < 0.7 else {"VCPU": 2, "MEMORY_MB": 512}
            yield "PUT", path, body(hosts, generation, amounts)
        elif kind == "empty":
            yield "PUT", path, body([], chance.choice([None, 0, 1, 2]))
        elif kind == "post":
            chosen = chance.sample(consumers, 2)
            yield "POST", "/allocations", {one: body(hosts, generation) for one in chosen}
        elif kind == "delete":
            yield "DELETE", path, None
        yield "GET", path, None
    for uuid in consumers:
        yield "DELETE", f"/allocations/{uuid}", None


def generations(either):
    """The generation of each host."""
    _, listed = either.ask("GET", "/resource_providers")
    return {one["uuid"]: one["generation"] for one in listed["resource_providers"]}


@pytest.mark.parametrize("seed", range(1, 7))
def test_the_model_answers_as_placement_and_raises_the_same_generations(real, seed):
    simulated = Model()
    first = generations(real)
    for number, (method, path, data) in enumerate(requests_of(seed)):
        expected = meaning(real.ask(method, path, data))
        answered = meaning(simulated.ask(method, path, data))
        assert answered == expected, f"request {number}: {method} {path} {data}"
        raised = {host: generation - first[host] for host, generation in generations(real).items()}
        assert {host: one - 1 for host, one in generations(simulated).items()} == raised, (method, data)


def test_candidates_and_providers_have_the_same_shape(real):
    simulated = Model()
    path = "/allocation_candidates?resources=VCPU%3A1%2CMEMORY_MB%3A512&limit=1000"
    (status, expected), (answered_status, answered) = real.ask("GET", path), simulated.ask("GET", path)
    assert status == answered_status == 200
    assert sorted(expected) == sorted(answered)

    def ordered(data):
        return sorted(data["allocation_requests"], key=orjson.dumps)

    assert ordered(answered) == ordered(expected)
    for host in HOSTS:
        theirs, ours = expected["provider_summaries"][host], answered["provider_summaries"][host]
        assert {**theirs, "traits": []} == {**ours, "traits": []}
        _, provider = simulated.ask("GET", f"/resource_providers/{host}")
        assert (
            provider["root_provider_uuid"]
            == real.ask("GET", f"/resource_providers/{host}")[1]["root_provider_uuid"]
        )
    assert simulated.ask("GET", f"/resource_providers/{MISSING}")[0] == 404
