"""What is explained after a decision equals what the plain forms of the rules say of each host."""

from collections import Counter
from copy import deepcopy
from random import Random

import pytest

from scheduler.explain.explanation import Names, explain
from scheduler.explain.replay import NOT_APPLICABLE, PASSED, REJECTED, Replay
from scheduler.filters.base import BaseHostFilter
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.consume import consumed_amounts
from tests.builders import make_view, uuid_of
from tests.support.options import make_conf
from tests.unit.explain.decisions import decide
from tests.unit.filters import per_host
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import REFUSED, FakeClaims, host_with_candidate

RULES = [
    "ComputeFilter",
    "AvailabilityZoneFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateInstanceExtraSpecsFilter",
    "ImagePropertiesFilter",
    "DifferentHostFilter",
    "SameHostFilter",
    "IoOpsFilter",
    "NumInstancesFilter",
    "RamFilter",
    "CoreFilter",
    "DiskFilter",
    "ServerGroupAntiAffinityFilter",
    "ServerGroupAffinityFilter",
]
ONCE = {
    "ComputeFilter",
    "AvailabilityZoneFilter",
    "AggregateMultiTenancyIsolation",
    "AggregateInstanceExtraSpecsFilter",
    "ImagePropertiesFilter",
    "DifferentHostFilter",
    "SameHostFilter",
}
FLEETS = 25
REQUESTS = 20


@pytest.fixture(scope="module")
def conf():
    return make_conf(
        enabled_filters=RULES,
        available_filters=[
            "nova.scheduler.filters.all_filters",
            "nova.scheduler.filters.availability_zone_filter.AvailabilityZoneFilter",
            "nova.scheduler.filters.ram_filter.RamFilter",
            "nova.scheduler.filters.core_filter.CoreFilter",
            "nova.scheduler.filters.disk_filter.DiskFilter",
        ],
        max_io_ops_per_host=4,
        max_instances_per_host=6,
    )


class Counting(BaseHostFilter):
    """A class of an operator."""

    def host_passes(self, host_state, spec_obj):
        raise AssertionError("asked although no host reached it")


def random_host(number, random):
    host = host_with_candidate(f"h{number}")
    host.ram(random.choice([512, 1024, 4096]), 4096).disk(random.choice([0, 1024, 10240, 102400]), 100)
    host.vcpus(16, random.choice([0, 8, 62])).io_ops(random.randrange(6)).num_instances(random.randrange(8))
    host.supports(*random.choice([[("x86_64", "kvm", "hvm")], [("aarch64", "kvm", "hvm")]]))
    if random.random() < 0.2:
        random.choice([host.disabled, host.forced_down, host.down])()
    if random.random() < 0.5:
        host.az(random.choice("ab"))
    if random.random() < 0.2:
        host.aggregate("tenants", filter_tenant_id="other")
    if random.random() < 0.7:
        host.aggregate("disks", disk=random.choice(["ssd", "hdd"]))
    if random.random() < 0.3:
        host.holding(random.choice(["A", "B"]))
    return host


def random_spec(random):
    group = random.choice([None, "affinity", "anti-affinity"])
    uuids = [f"i{number}" for number in range(random.choice([1, 1, 3]))]
    members = {"members": ["A", *uuids], "hosts": random.choice([[], ["h1", "h2"]])}
    spec = make_spec(
        random.choice([None, None, None, {"aggregate_instance_extra_specs:disk": "ssd"}]),
        image=random.choice([None, None, {"hw_architecture": "aarch64"}, {"hw_architecture": "x86_64"}]),
        hints=random.choice(
            [None, {"different_host": ["B"]}, {"different_host": ["B"]}, {"same_host": ["A"]}]
        ),
        group=group and {"uuid": "g", "policy": group, "policies": [group], **members},
        sizes={"memory_mb": random.choice([64, 512, 2048]), "vcpus": random.choice([1, 1, 4])},
        availability_zone=random.choice([None, None, None, "a"]),
        instance_uuid=uuids[0],
    )
    return spec, uuids


def fleet_at(hosts, record, this, spec, pending_rows):
    """The builders as a round saw the hosts: with pending placements, and less what was chosen before."""
    fleet = deepcopy(hosts)
    for row in pending_rows:
        columns = fleet[row].columns
        columns["num_instances"] = columns.get("num_instances", 0) + 1
        columns["num_io_ops"] = columns.get("num_io_ops", 0) + 1
    for number, charged in enumerate(record.hosts.consumed[: this.moment.consumed]):
        host = fleet[charged.position]
        for name, amount in consumed_amounts(spec.flavor).items():
            host.columns[name] = host.columns.get(name, 0) + amount
        if spec.instance_group:
            host.holding(record.request.instance_uuids[number])
            spec.instance_group.hosts = [*spec.instance_group.hosts, host.columns["host"]]
    spec.instance_uuid = this.instance_uuid
    return make_view(fleet)


def decisions(conf):
    for seed in range(FLEETS):
        random = Random(seed)
        hosts = [random_host(number, random) for number in range(random.choice([5, 12]))]
        for _ in range(REQUESTS):
            spec, uuids = random_spec(random)
            original = deepcopy(spec)
            request = SchedulingRequest.of(spec, uuids)
            rows = [row for row in range(len(hosts)) if random.random() < 0.2]
            refusing = {uuid_of("h1"): REFUSED} if random.random() < 0.2 else {}
            record, view, pending = decide(conf, hosts, request, FakeClaims(refusing), rows)
            disturb(view, request, pending, rows)
            yield hosts, original, record, rows


def disturb(view, request, pending, rows):
    """What may happen to what a record refers to after the decision."""
    pending.remove([f"pending {row}" for row in rows])
    for index in range(len(view)):
        view.consume(index, num_instances=50, free_ram_mb=-9999)
        view.narrow(index, ())
    request.progress.instance_uuid = "later"
    request.progress.group_hosts = ("elsewhere",)


def plain_verdicts(names, view, index, spec, conf):
    return {name: per_host.PLAIN[name](view.host(index), spec, conf) for name in names}


def test_explanations_of_random_requests_say_what_the_plain_rules_say(conf):
    seen = Counter()
    for hosts, spec, record, rows in decisions(conf):
        seen["failed" if record.error else "served"] += 1
        replay = Replay(record.hosts)
        lines = {line["host"]: line for line in explain(record, Names(), 100)["hosts"]}
        for number, this in enumerate(record.hosts.rounds):
            if this.moment is None:
                continue
            seen["first round" if not number else "later round"] += 1
            told = deepcopy(spec)
            at_that_time = fleet_at(hosts, record, this, told, rows)
            names = [name for name in RULES if not this.number or name not in ONCE]
            turned_down = {}
            for step, found in replay.rejected(number):
                turned_down |= {row.host: (step.rule.name, reason) for row, reason in found}
            for position in replay.given_to(number).tolist():
                seen["hosts"] += 1
                host = replay.row(position).host
                expected = plain_verdicts(names, at_that_time, position, told, conf)
                first = next((name for name in names if not expected[name]), None)
                seen[first] += 1
                assert turned_down.get(host, (None,))[0] == first, (host, record.summary)
                if first:
                    assert (lines[host]["filter"], lines[host]["reason"]) == turned_down[host]
                    compare(replay.verdicts(position), expected, first, turned_down[host][1])
    assert min(seen["failed"], seen["served"]) > 80, seen
    assert seen["later round"] > 30, seen
    assert set(RULES) - {"ServerGroupAffinityFilter"} <= set(seen), seen


def compare(verdicts, expected, first, reason):
    said = {each.filter: each for each in verdicts}
    for name, passes in expected.items():
        assert said[name].verdict in ([PASSED, NOT_APPLICABLE] if passes else [REJECTED]), (name, said[name])
        assert passes or said[name].reason
    assert [each.filter for each in verdicts if each.decisive] == [first]
    assert said[first].reason == reason


def test_a_reason_has_the_values_of_the_decision(conf):
    hosts = [host_with_candidate("full").num_instances(6), host_with_candidate("free")]
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    record, view, _ = decide(conf, hosts, request, pending_rows=[0])
    view.consume(0, num_instances=20)
    (step, found) = next((step, found) for step, found in Replay(record.hosts).rejected(0) if found)
    assert (step.rule.name, [(row.host, reason) for row, reason in found]) == (
        "NumInstancesFilter",
        [("full", "7 instances, limit 6")],
    )


def test_hosts_are_found_by_host_node_and_uuid(conf):
    hosts = [host_with_candidate("h0"), host_with_candidate("h1").node("n1")]
    hosts[1].candidates.clear()
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    record, *_ = decide(conf, hosts, request)
    replay = Replay(record.hosts)
    assert [replay.positions_of(name) for name in ("h1", "n1", uuid_of("n1"), "zz")] == [[1], [1], [1], []]


def test_a_class_of_the_operator_is_not_asked_again():
    conf = make_conf(
        enabled_filters=["RamFilter", "Counting"],
        available_filters=[
            "nova.scheduler.filters.ram_filter.RamFilter",
            "tests.unit.explain.test_replay.Counting",
        ],
    )
    request = SchedulingRequest.of(make_spec(sizes={"memory_mb": 9999}, instance_uuid="i"), ["i"])
    record, *_ = decide(conf, [host_with_candidate("h0")], request)
    verdicts = Replay(record.hosts).verdicts(0)
    assert [(each.filter, each.verdict, each.decisive) for each in verdicts] == [
        ("RamFilter", REJECTED, True),
        ("Counting", "not run", False),
    ]
