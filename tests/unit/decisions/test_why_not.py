"""The sets of constraints that hosts fail, and what is said of them."""

from types import SimpleNamespace

import numpy as np
import pytest

from scheduler import objects
from scheduler.decisions.constraints import RequestNames, parts_of, without
from scheduler.decisions.document import Constraint, Reason
from scheduler.decisions.failed_constraints import FailedConstraints
from scheduler.decisions.failure import Failure, KnownHosts
from scheduler.decisions.query_failures import Asking, MirrorJudge, Refusals
from scheduler.decisions.words import failing_text
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.mirror import Nodes
from scheduler.placement.plain_query import CLASSES
from scheduler.placement.providers import Inventory, ProviderState
from scheduler.request.query import Query
from tests.builders import make_host, make_table

NAMES = RequestNames(objects.RequestSpec(), ())
A, B, C = (Constraint(f"required trait {name}", "trait") for name in "ABC")


def query(**params):
    pairs = tuple(sorted(params.items()))
    return Query(pairs, "", None)


def failed(hosts, **entries):
    """Constraints by name with the positions of hosts that fail them."""
    found = FailedConstraints(hosts)
    for name, positions in entries.items():
        mask = np.zeros(hosts, bool)
        mask[positions] = True
        found.add(Constraint(name, "trait"), mask)
    return found


def names(why):
    return [("+".join(one.text for one in why.of(each)), each.hosts, each.names) for each in why.failing]


def test_hosts_that_fail_the_same_are_one_entry_and_those_that_fail_least_come_first():
    why = failed(6, A=[0, 1, 2, 3], B=[3, 4], C=[5]).why(lambda at: f"h{at}")[0]
    assert names(why) == [
        ("A", 3, ["h0", "h1", "h2"]),
        ("B", 1, ["h4"]),
        ("C", 1, ["h5"]),
        ("A+B", 1, ["h3"]),
    ]
    assert (why.hosts, why.suitable) == (6, 0)


def test_hosts_that_fail_nothing_are_counted():
    assert failed(3, A=[0]).why(str)[0].suitable == 2


def test_sets_of_many_constraints_are_distinct():
    """More constraints than an integer has bits; each pair of hosts differs in one."""
    entries = {f"T{number}": [number] for number in range(130)}
    why = failed(131, **entries, ALL=list(range(131))).why(str)[0]
    assert sorted(each.hosts for each in why.failing) == [1] * len(why.failing)
    assert names(why)[0] == ("ALL", 1, ["130"])


def test_of_two_queries_the_one_counts_that_a_host_fails_less_of():
    easier = failed(3, A=[0], B=[0, 1]).or_easier(failed(3, C=[0], D=[1, 2]))
    assert names(easier.why(str)[0]) == [("B", 1, ["1"]), ("C", 1, ["0"])]


def state(uuid, traits=(), aggregates=(), used=(), **inventories):
    return ProviderState(uuid, 1, inventories, dict(used), frozenset(traits), frozenset(aggregates))


def judged(params, *states, placed=()):
    nodes = Nodes(one.uuid for one in states)
    for row, one in enumerate(states):
        nodes.set_state(row, one)
    return judge_of(nodes, params, placed).failed()


def judge_of(nodes, params, placed=()):
    """A judge of hosts of which the mirror has these nodes."""
    nodes.read_to[:] = 0.0
    ranking = SimpleNamespace(number=len(placed), placed=dict(enumerate(placed)))
    table = make_table([make_host(uuid).set(uuid=uuid) for uuid in nodes.uuids])
    known = KnownHosts(table, Failure(None, ranking=ranking))
    mirror = SimpleNamespace(
        known_nodes=lambda aggregates, *, reads: nodes,
        reader=SimpleNamespace(full_nodes=frozenset(), unread_nodes=[]),
    )
    return MirrorJudge(known, [parts_of(query(**params), NAMES)], mirror)


def candidate_of(uuid, **amounts):
    return AllocationCandidate.of(uuid, (uuid,), {uuid: {"resources": amounts}}, {})


def refusal_of(state, name, amount):
    nodes, here = Nodes([state.uuid]), np.zeros(1, np.int64)
    nodes.set_state(0, state)
    return next(iter(Refusals(nodes, here, name, amount, here).reasons(here)), None)


@pytest.mark.parametrize(
    ("inventory", "used", "amount", "reason"),
    [
        (Inventory(16), 14, 4, Reason("at most 2 VCPU free", 1, "free", 2)),
        (Inventory(16), 20, 4, Reason("at most 0 VCPU free", 1, "free", 0)),
        (Inventory(16, reserved=13), 0, 4, Reason("VCPU capacity 3", 1, "capacity", 3)),
        (Inventory(16, step_size=3), 0, 4, Reason("VCPU step_size 3", 1, "step_size", 3)),
        (Inventory(16, min_unit=5), 0, 4, Reason("VCPU min_unit 5", 1, "min_unit", 5)),
        (Inventory(4, allocation_ratio=4.0, max_unit=4), 0, 8, Reason("VCPU max_unit 4", 1, "max_unit", 4)),
        (Inventory(16, reserved=4, max_unit=16), 0, 20, Reason("VCPU max_unit 16", 1, "max_unit", 12)),
        (Inventory(16), 12, 20, Reason("VCPU capacity 16", 1, "capacity", 4)),
        (Inventory(16, max_unit=16), 16, 20, Reason("VCPU max_unit 16", 1, "max_unit", 0)),
        (Inventory(16, step_size=2), 13, 4, Reason("at most 3 VCPU free", 1, "free", 2)),
        (Inventory(16, min_unit=4), 13, 4, Reason("at most 3 VCPU free", 1, "free", 0)),
        (Inventory(16), 12, 4, None),
    ],
)
def test_an_amount_is_refused_by_a_limit(inventory, used, amount, reason):
    assert refusal_of(state("u", used={"VCPU": used}, VCPU=inventory), "VCPU", amount) == reason


def test_a_class_that_a_host_lacks_is_absent():
    assert refusal_of(state("u"), "VCPU", 1) == Reason("no VCPU", 1, "absent")


@pytest.mark.parametrize("count", [20, 21])
def test_the_limit_of_most_hosts_comes_first_also_if_limits_of_the_first_hosts_alone_are_read(count):
    hosts = [f"h{number}" for number in range(count)]
    states = {host: state(host, VCPU=Inventory(16, max_unit=2)) for host in hosts}
    states["h0"] = state("h0", used={"VCPU": 16}, VCPU=Inventory(16))
    asked = query(resources="VCPU:4,MEMORY_MB:1")
    table = make_table([make_host(host).set(uuid=host) for host in hosts])
    answers = SimpleNamespace(
        offer=lambda _text, _placed: (frozenset(hosts), False),
        states=lambda uuids: {uuid: states[uuid] for uuid in uuids},
    )
    parts, found = parts_of(asked, NAMES), FailedConstraints(count)
    Asking(KnownHosts(table, Failure(SimpleNamespace(), [asked])), answers, [parts]).ask(parts[:1], found)
    (failing,) = found.why(str)[0].failing
    assert [reason.text for reason in failing.first_reasons] == ["VCPU max_unit 2", "at most 0 VCPU free"]


def test_traits_aggregates_and_amounts_are_judged_for_each_host():
    room = {"VCPU": Inventory(8), "MEMORY_MB": Inventory(8192)}
    found = judged(
        {"required": "A,!B", "member_of": "in:g1,g2", "resources": "VCPU:4,MEMORY_MB:1024"},
        state("u0", ["A"], ["g1"], **room),
        state("u1", ["A", "B"], ["g2"], **room),
        state("u2", [], [], **room),
        state("u3", ["A"], ["g1"], {"VCPU": 6}, **room),
    )
    assert names(found.why(str)[0]) == [
        ("forbidden trait B", 1, ["1"]),
        ("4 VCPU", 1, ["3"]),
        ("required aggregate g1 or g2+required trait A", 1, ["2"]),
    ]
    assert found.why(str)[0].suitable == 1


def test_what_instances_before_took_is_used():
    """One took shared CPUs, by the fallback query, and another one dedicated CPUs."""
    placed = [("u0", candidate_of("u0", VCPU=4)), ("u0", candidate_of("u0", PCPU=4))]
    found = judged({"resources": "VCPU:4"}, state("u0", VCPU=Inventory(8)), placed=placed)
    assert found.why(str)[0].suitable == 1
    found = judged({"resources": "VCPU:4"}, state("u0", VCPU=Inventory(8)), placed=[*placed, placed[0]])
    (each,) = found.why(str)[0].failing
    assert each.reasons == [[Reason("at most 0 VCPU free", 1, "free", 0)]]


def test_a_host_whose_unit_limits_are_not_known_yet_is_doubtful_and_one_that_is_gone_is_not():
    nodes = Nodes(["u0", "u1", "u2", "u3"])
    nodes.set_state(1, state("u1", VCPU=Inventory(8)))
    nodes.capacity[CLASSES.index("VCPU")] = 8, 8, 2, 8
    nodes.gone[3] = True
    judge = judge_of(nodes, {"resources": "VCPU:4"})
    assert judge.failed().failed("4 VCPU").tolist() == [False, False, True, False]
    assert judge.doubtful.tolist() == [True, False, False, False]


@pytest.mark.parametrize(
    ("params", "text", "left"),
    [
        ({"resources": "VCPU:1,MEMORY_MB:2"}, "1 VCPU", "resources=MEMORY_MB%3A2"),
        ({"resources": "VCPU:1", "required": "A,!B"}, "forbidden trait B", "required=A&resources=VCPU%3A1"),
        ({"resources": "VCPU:1", "in_tree": "u"}, "1 VCPU", None),
        (
            {"resources": "VCPU:1", "resources1": "VGPU:1", "required1": "A", "same_subtree": "1,2"},
            "group 1 (1 VGPU, required trait A)",
            "resources=VCPU%3A1",
        ),
        (
            {"resources": "VCPU:1", "resources1": "VGPU:1", "resources2": "VGPU:1", "group_policy": "none"},
            "groups 1, 2 (1 VGPU)",
            "group_policy=none&resources=VCPU%3A1",
        ),
    ],
)
def test_a_query_without_one_constraint(params, text, left):
    made = query(**params)
    (part,) = [one for one in parts_of(made, NAMES) if one.constraint.text == text]
    assert without(made, part) == left


def test_what_is_said_of_sets():
    found = failed(7, A=[0, 1, 2, 3], B=[3])
    found.add(
        Constraint("OwnFilter", "filter", filter="OwnFilter"),
        np.arange(7) >= 4,
        lambda at: [Reason("busy", 2)],
    )
    why, sets = found.why(str)
    assert sets.tolist() == [0, 0, 0, 2, 1, 1, 1]
    assert [failing_text(why, each) for each in why.failing] == [
        "3 hosts lack only A",
        "3 hosts are rejected only by OwnFilter: busy on 2 hosts",
        "1 host lacks A and B",
    ]
