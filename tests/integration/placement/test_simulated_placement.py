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
CHILD = "a0000000-0000-4000-8000-0000000000c0"
ZONE = "a0000000-0000-4000-8000-0000000000a0"
INVENTORIES = {"VCPU": {"total": 2}, "MEMORY_MB": {"total": 2048, "step_size": 512}}
ONE = {"VCPU": 1, "MEMORY_MB": 512}
ODD = {"VCPU": 1, "MEMORY_MB": 500}
OLD = {"OpenStack-API-Version": "placement 1.28"}
PROVIDERS = [
    Provider(HOSTS[0], HOSTS[0], INVENTORIES, HOST_TRAITS),
    Provider(HOSTS[1], HOSTS[1], INVENTORIES, HOST_TRAITS, [ZONE]),
    Provider(HOSTS[2], HOSTS[2], INVENTORIES, ["COMPUTE_NODE"]),
    Provider(
        CHILD, CHILD, {"VGPU": {"total": 4, "max_unit": 2, "reserved": 1}}, ["CUSTOM_RED"], parent=HOSTS[1]
    ),
]


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
        self.placement = model.Placement(
            [
                model.Provider(
                    each.uuid, each.inventories, set(each.traits), set(each.aggregates), each.parent
                )
                for each in PROVIDERS
            ]
        )

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
    with PlacementProcess(tmp_path_factory.mktemp("placement") / "placement.db") as url:
        create_fleet(url, PROVIDERS)
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
    sorts = (
        "consumer generation conflict",
        "exceed the capacity",
        "does not exist",
        "Another thread",
        "constraints",
        "invalid",
    )
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
            amounts = chance.choice([ONE, ONE, ONE, ONE, ODD, {"VCPU": 2, "MEMORY_MB": 512}, {"VGPU": 1}])
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


def ordered(value):
    """A response without generations, links and the order of its lists."""
    if isinstance(value, list):
        return sorted((ordered(each) for each in value), key=orjson.dumps)
    if isinstance(value, dict):
        return {name: ordered(each) for name, each in sorted(value.items()) if name not in NOT_MODELLED}
    return value


NOT_MODELLED = {"generation", "resource_provider_generation", "links"}
CANDIDATES = "/allocation_candidates?resources="
QUERIES = [
    f"{CANDIDATES}VCPU%3A1%2CMEMORY_MB%3A512&limit=1000",
    f"{CANDIDATES}MEMORY_MB%3A500",
    f"{CANDIDATES}MEMORY_MB%3A512&required=HW_CPU_X86_VMX",
    f"{CANDIDATES}MEMORY_MB%3A512&required=%21HW_CPU_X86_VMX",
    f"{CANDIDATES}MEMORY_MB%3A512&member_of=in%3A{ZONE}",
    f"{CANDIDATES}MEMORY_MB%3A512&member_of=%21in%3A{ZONE}",
    f"{CANDIDATES}VCPU%3A1%2CVGPU%3A2",
    f"{CANDIDATES}VGPU%3A3",
    f"{CANDIDATES}VCPU%3A1%2CVGPU%3A1&required=CUSTOM_RED%2CHW_CPU_X86_VMX",
    f"{CANDIDATES}VGPU%3A1&required=HW_CPU_X86_VMX",
    f"{CANDIDATES}VGPU%3A1&member_of={ZONE}",
    f"{CANDIDATES}VGPU%3A1&root_required=HW_CPU_X86_VMX",
    f"{CANDIDATES}VGPU%3A1&root_required=%21HW_CPU_X86_VMX",
    f"{CANDIDATES}MEMORY_MB%3A512%2CVCPU%3A1&resources1=VCPU%3A1&group_policy=none",
    f"{CANDIDATES}VCPU%3A1&resources1=VCPU%3A2",
    "/resource_providers",
    "/resource_providers?resources=MEMORY_MB%3A512%2CVCPU%3A1",
    "/resource_providers?resources=MEMORY_MB%3A4096",
    "/resource_providers?resources=VGPU%3A3",
    f"/resource_providers?uuid={CHILD}",
    "/resource_providers?required=CUSTOM_RED",
    "/resource_providers?required=COMPUTE_NODE%2C%21OWNER_NOVA",
    f"/resource_providers?member_of={ZONE}",
    f"/resource_providers?member_of=%21in%3A{ZONE}",
    "/traits?name=in%3ACUSTOM_RED%2CCUSTOM_BLUE",
    *(
        f"/resource_providers/{uuid}{what}"
        for uuid in (HOSTS[1], CHILD)
        for what in ("", "/inventories", "/usages", "/allocations", "/traits", "/aggregates")
    ),
]


@pytest.mark.parametrize("path", QUERIES)
def test_reads_are_answered_alike(real, path):
    (status, expected), (answered_status, answered) = real.ask("GET", path), Model().ask("GET", path)
    assert status == answered_status == 200
    assert ordered(answered) == ordered(expected)


def test_a_provider_that_does_not_exist_is_not_found(real):
    for either in (real, Model()):
        assert either.ask("GET", f"/resource_providers/{MISSING}")[0] == 404
