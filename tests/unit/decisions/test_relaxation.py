"""Which constraints of a query are left out, and within which bounds."""

import json
from urllib.parse import parse_qsl, urlencode

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import objects
from scheduler.decisions import relaxation
from scheduler.decisions.constraint_names import RequestNames
from scheduler.decisions.providers import OfferedHosts, read_offer
from scheduler.decisions.relaxation import RelaxationSearch, constraints_of, relaxed, without
from scheduler.placement.errors import PlacementSilent
from scheduler.placement.providers import Inventory

UUIDS = RequestNames(objects.RequestSpec(), ())

QUERY = (
    ("limit", "1000"),
    ("member_of", "!in:c"),
    ("member_of", "in:a,b"),
    ("required", "COMPUTE_A,!COMPUTE_B"),
    ("required_1", "HW_GPU"),
    ("resources", "DISK_GB:500,VCPU:1"),
    ("resources_1", "VGPU:1"),
    ("root_required", "!ROOT"),
)


def texts(pairs):
    return [each.text for each in constraints_of(pairs, UUIDS)]


def test_each_trait_aggregate_and_amount_is_one_constraint_amounts_last():
    assert texts(QUERY) == [
        "forbidden aggregate c",
        "required aggregate a or b",
        "required trait COMPUTE_A",
        "forbidden trait COMPUTE_B",
        "required trait HW_GPU of group _1",
        "forbidden trait ROOT",
        "500 DISK_GB",
        "1 VCPU",
        "1 VGPU of group _1",
    ]


def test_in_tree_is_the_requested_host():
    assert texts((("in_tree", "u"), ("resources", "VCPU:1"))) == ["the requested destination u", "1 VCPU"]


@pytest.mark.parametrize(
    ("gone", "left"),
    [
        (["required trait COMPUTE_A"], {"required": "!COMPUTE_B"}),
        (["required trait COMPUTE_A", "forbidden trait COMPUTE_B"], {"required": None}),
        (["500 DISK_GB"], {"resources": "VCPU:1"}),
        (["required trait HW_GPU of group _1"], {"required_1": None}),
    ],
    ids=str,
)
def test_the_rest_of_a_query_stays(gone, left):
    found = without(QUERY, [each for each in constraints_of(QUERY, UUIDS) if each.text in gone])
    expected = {name: value for name, value in (dict(QUERY) | left).items() if value is not None}
    assert dict(found) == expected


def test_a_group_without_resources_is_not_asked_for():
    last = [each for each in constraints_of(QUERY, UUIDS) if each.text == "1 VGPU of group _1"]
    assert without(QUERY, last) is None


@given(st.data())
def test_what_is_left_out_is_gone_and_nothing_else(data):
    constraints = constraints_of(QUERY, UUIDS)
    gone = data.draw(st.lists(st.sampled_from(constraints), unique=True))
    left = without(QUERY, gone)
    if left is not None:
        assert constraints_of(left, UUIDS) == [each for each in constraints if each not in gone]


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def offer(count, used=400, name="DISK_GB"):
    """An offer of hosts, each with one provider."""
    body = {
        "provider_summaries": {
            f"h{number}": summary(f"h{number}", used, name=name) for number in range(count)
        },
        "allocation_requests": [taking(**{f"h{number}": 1}) for number in range(count)],
    }
    return read_offer(json.dumps(body).encode(), None)


class Placement:
    """Offers 12 hosts if none of its conditions is asked for; answers take ``seconds``."""

    def __init__(self, *conditions, seconds=0.0, used=400, inventory=None):
        self.conditions, self.seconds, self.asked, self.clock = conditions, seconds, [], Clock()
        self.used, self.inventory, self.read = used, inventory or Inventory(500, max_unit=500), []

    def offer(self, querystring):
        self.asked.append(querystring)
        self.clock.now += self.seconds
        asked = texts(tuple(parse_qsl(querystring)))
        return offer(0 if any(each in asked for each in self.conditions) else 12, self.used)

    def inventories(self, provider):
        self.read.append(provider)
        return {"DISK_GB": self.inventory}

    def find(self, pairs=QUERY):
        return [each.text for each in RelaxationSearch(self, self.clock).find(urlencode(pairs), UUIDS)]


def test_a_query_that_is_refused_no_more_is_not_taken_apart():
    """What refused it may have gone since, as an outage; nothing that is left out would be the cause."""
    placement = Placement()
    assert placement.find() == ["the same query, sent again, has 12 hosts: the cloud has changed since"]
    assert len(placement.asked) == 1


def test_one_constraint_that_leaves_no_host_is_named_with_what_is_offered_without_it():
    assert Placement("required trait COMPUTE_A").find() == ["without required trait COMPUTE_A: 12 hosts"]


def test_an_amount_is_named_with_what_is_free():
    assert Placement("500 DISK_GB").find() == [
        "without 500 DISK_GB: 12 hosts (at most 100 DISK_GB free on 12 hosts)"
    ]


def test_an_amount_above_max_unit_is_not_said_to_be_free():
    placement = Placement("500 DISK_GB", used=0, inventory=Inventory(500, max_unit=128))
    assert placement.find() == ["without 500 DISK_GB: 12 hosts (DISK_GB max_unit 128 on 12 hosts)"]


def test_inventories_are_read_within_bounds(monkeypatch):
    monkeypatch.setattr(relaxation, "MOST_INVENTORIES", 3)
    placement = Placement("500 DISK_GB")
    assert placement.find() == [
        "without 500 DISK_GB: 12 hosts (at most 100 DISK_GB free on 3 hosts, 9 hosts not read)"
    ]
    assert len(placement.read) == 3


def test_inventories_that_cannot_be_read_leave_the_rest(monkeypatch):
    placement = Placement("500 DISK_GB")

    def fail(provider):
        raise PlacementSilent(provider)

    monkeypatch.setattr(placement, "inventories", fail)
    assert placement.find() == ["without 500 DISK_GB: 12 hosts (12 hosts not read)"]


@pytest.mark.parametrize(
    ("root", "words"),
    [
        ("host", "no VGPU on 1 host"),
        ("shared", "at most 10 DISK_GB free on 1 provider"),
    ],
)
def test_what_a_host_has_not_itself_may_be_shared(root, words):
    name = words.split(" on ")[0].split()[-1] if root == "host" else "DISK_GB"
    body = {
        "provider_summaries": {
            "host": summary("host", 0, name="VCPU"),
            "shared": summary("shared", 490, "MISC_SHARES_VIA_AGGREGATE"),
        },
        "allocation_requests": [taking(host=1)],
    }
    placement = Placement()
    placement.offer = lambda query: (
        read_offer(json.dumps(body).encode(), None) if name not in query else OfferedHosts()
    )
    (found,) = placement.find((("resources", f"MEMORY_MB:1,{name}:20"),))
    assert found == f"without 20 {name}: 1 host ({words})"


def test_pairs_are_asked_for_only_if_no_constraint_alone_helps():
    placement = Placement("500 DISK_GB", "required trait COMPUTE_A")
    assert placement.find() == [
        "without required trait COMPUTE_A and 500 DISK_GB: 12 hosts (at most 100 DISK_GB free on 12 hosts)"
    ]


def test_three_that_have_to_go_are_not_found():
    assert Placement("500 DISK_GB", "required trait COMPUTE_A", "forbidden aggregate c").find() == []


def test_the_number_of_questions_is_bounded():
    placement = Placement("limitless")
    placement.conditions = texts(QUERY)
    many = (("required", ",".join(f"CUSTOM_{number}" for number in range(100))), ("resources", "VCPU:1"))
    placement.conditions = tuple(texts(many))
    assert placement.find(many) == []
    assert len(placement.asked) == relaxation.MOST_QUESTIONS


@pytest.mark.parametrize(
    ("seconds", "questions"), [(relaxation.SLOW + 1, 1), (relaxation.SLOW - 1, 8)], ids=["slow", "in total"]
)
def test_a_slow_placement_is_not_asked_on(seconds, questions):
    placement = Placement(*texts(QUERY), seconds=seconds)
    assert placement.find() == []
    assert len(placement.asked) == questions


def summary(root, used, *traits, name="DISK_GB"):
    return {
        "resources": {name: {"capacity": 500, "used": used}},
        "traits": traits,
        "root_provider_uuid": root,
    }


def taking(**amounts):
    """A candidate that takes these amounts of disk from providers."""
    allocations = {provider: {"resources": {"DISK_GB": amount}} for provider, amount in amounts.items()}
    return {"allocations": allocations, "mappings": {}}


@pytest.mark.parametrize(("limit", "cut"), [(None, False), (4, False), (3, True)], ids=str)
def test_hosts_of_a_response_are_its_compute_nodes(limit, cut):
    body = {
        "provider_summaries": {"p": summary("r1", 400), "q": summary("r1", 450), "r": summary("r2", 500)},
        "allocation_requests": [taking(p=1), taking(q=1), taking(r=1)],
    }
    found = read_offer(json.dumps(body).encode(), limit)
    assert (found.nodes, found.cut) == ({"r1", "r2"}, cut)
    assert {uuid: each.free("DISK_GB") for uuid, each in found.providers.items()} == {
        "p": 100,
        "q": 50,
        "r": 0,
    }


def test_a_provider_that_shares_its_disk_is_no_host():
    body = {
        "provider_summaries": {
            "host": summary("host", 0, name="VCPU"),
            "shared": summary("shared", 0, "MISC_SHARES_VIA_AGGREGATE"),
        },
        "allocation_requests": [taking(host=1, shared=1)],
    }
    assert read_offer(json.dumps(body).encode(), None).nodes == {"host"}


def test_a_cut_answer_says_at_least():
    constraint = constraints_of(QUERY, UUIDS)[2]
    assert relaxed((constraint,), OfferedHosts(frozenset("u"), cut=True)).text == (
        "without required trait COMPUTE_A: at least 1 host"
    )
