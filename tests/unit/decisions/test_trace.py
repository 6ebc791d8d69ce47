"""What is noted of a decision."""

from collections import Counter
from copy import deepcopy
from dataclasses import replace
from random import Random

import pytest

from scheduler import objects
from scheduler.decisions import failed_constraints, record, rendering, trace
from scheduler.decisions.decision_line import refused_line
from scheduler.decisions.document import Place, decode, encode
from scheduler.decisions.record import LARGEST_SPEC, NAMED
from scheduler.errors import ComputeHostMetricNotFound
from scheduler.filters import builtin, count_filters
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.request.scheduling_request import SchedulingRequest
from tests.builders import CELL, make_view, uuid_of
from tests.support.options import make_conf
from tests.unit.decisions.decisions import decide
from tests.unit.filters.asking import make_spec, request_of, verdicts
from tests.unit.selection.requests import REFUSED, FakeClaims, host_with_candidate


def test_the_weights_of_the_best_hosts_add_up_to_their_totals():
    hosts = [host_with_candidate(f"h{number}").ram(1024 * number, 65536) for number in range(1, 15)]
    for host in hosts[5:]:
        host.aggregate("a", ram_weight_multiplier="2.5")
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    decision = decide(make_conf(enabled_filters=[]), hosts, request).decision
    best = decision.best
    assert [decision.hosts.host[number] for number in best.host] == [
        f"h{number}" for number in range(14, 4, -1)
    ]
    for number, total in enumerate(best.total):
        assert sum(each.added(number) for each in best.weights) == pytest.approx(total)
    ram = next(each for each in best.weights if each.weigher == "RAMWeigher")
    assert (ram.raw[0], ram.low, ram.high, ram.multiplier[0]) == (14336.0, 0.0, 14336.0, 2.5)
    assert decision.chosen[0].host == Place("h14", "h14")


def test_the_reason_is_known_of_an_instance_beyond_those_that_are_noted(monkeypatch):
    monkeypatch.setattr(trace, "MOST_STEPS", 3)
    conf = make_conf(enabled_filters=["ComputeFilter", "NumInstancesFilter"], max_instances_per_host=3)
    hosts = [host_with_candidate("h1"), host_with_candidate("h2")]
    uuids = [f"i{number}" for number in range(7)]
    decision = decide(conf, hosts, SchedulingRequest.of(make_spec(instance_uuid="i0"), uuids)).decision
    assert decision.summary == (
        "for instance 7 of 7; 6 found a host, which was released; 2 hosts are rejected only by "
        "NumInstancesFilter: 3 instances, limit 3"
    )
    last = list(rendering.funnel(decision))[-1]
    assert (last.name, last.start, last.end) == ("NumInstancesFilter", 1, 0)


def test_hosts_rejected_before_the_filters_that_are_noted_have_their_filter(monkeypatch):
    monkeypatch.setattr(trace, "MOST_STEPS", 2)
    conf = make_conf(
        enabled_filters=["RamFilter", "NumInstancesFilter"],
        available_filters=[
            "nova.scheduler.filters.all_filters",
            "nova.scheduler.filters.ram_filter.RamFilter",
        ],
        max_instances_per_host=3,
    )
    hosts = [host_with_candidate("many").ram(65536).num_instances(2), host_with_candidate("small").ram(1500)]
    spec = make_spec(sizes={"memory_mb": 1024}, instance_uuid="i0")
    decision = decide(conf, hosts, SchedulingRequest.of(spec, ["i0", "i1", "i2"])).decision
    filters = {host.host: host.filter for host in rendering.hosts(decision)}
    assert filters == {"many": "NumInstancesFilter", "small": "RamFilter"}


def test_a_host_that_is_alone_has_no_weights():
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    decision = decide(make_conf(enabled_filters=[]), [host_with_candidate("h")], request).decision
    assert (decision.hosts.host, decision.best.host, decision.best.weights) == (["h"], [0], [])


def test_a_request_whose_hosts_are_held_names_none_of_the_pass_before():
    class Held(trace.Trace):
        def finish(self, error, explain=None):
            self.step = "held"
            self.found("held", 1)
            node = objects.Selection(
                compute_node_uuid=uuid_of("n9"), service_host="h9", nodename="n9", cell_uuid=CELL
            )
            self.selected([[node]])
            super().finish(error, explain)

    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    found = decide(make_conf(), [host_with_candidate("h1")], request, make=Held)
    decision = found.decision
    assert "1 candidate -> 0 passed" in refused_line(found.record, 0.0, "")
    assert (decision.candidates.source, decision.filters, decision.hosts.host) == ("held", [], [])
    assert decision.chosen[0].host == Place("h9", "n9")
    assert "failed" not in decision.milliseconds


def ended(error, *args):
    """The document of a decision that an error ends."""
    made = []

    def make(*args, **options):
        made.append(trace.Trace(*args, **options))
        return made[0]

    with pytest.raises(error) as raised:
        decide(*args, make=make)
    made[0].finish(raised.value)
    return made[0].decision


def test_the_hosts_of_a_request_that_a_filter_ends_by_an_error_are_named(monkeypatch):
    def fail(_rule, _request):
        raise ValueError("broken")

    monkeypatch.setattr(count_filters.NumInstancesFilter, "prepare", fail)
    hosts = [host_with_candidate(name) for name in ("h1", "h2", "h3")]
    request = SchedulingRequest.of(make_spec(instance_uuid="i", ignore_hosts=["h2"]), ["i"])
    decision = ended(ValueError, make_conf(enabled_filters=["NumInstancesFilter"]), hosts, request)
    assert (decision.candidates.known, decision.candidates.allowed) == (3, 2)
    assert list(zip(decision.hosts.host, decision.hosts.outcome, strict=True)) == [
        ("h1", "passed"), ("h3", "passed"), ("h2", "excluded by the request"),
    ]  # fmt: skip
    assert "selection" in decision.milliseconds


def test_what_filters_did_is_noted_of_a_request_that_a_weigher_ends_by_an_error():
    hosts = [
        host_with_candidate("h1"),
        host_with_candidate("h2"),
        host_with_candidate("full").num_instances(99),
    ]
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    conf = make_conf(enabled_filters=["NumInstancesFilter"], metrics__weight_setting=["load=1"])
    decision = ended(ComputeHostMetricNotFound, conf, hosts, request)
    assert [(step.filter, step.start, step.end) for step in decision.filters] == [
        ("NumInstancesFilter", 3, 2)
    ]
    assert list(zip(decision.hosts.host, decision.hosts.outcome, strict=True)) == [
        ("h1", "passed"), ("h2", "passed"), ("full", "rejected"),
    ]  # fmt: skip


class RefusedOnce(FakeClaims):
    """Claims that are granted, but for that of one instance on one host."""

    def __init__(self, uuid, host, final=False):
        super().__init__()
        self._refused, self._result = (uuid, uuid_of(host)), replace(REFUSED, final=final)

    def answer(self, instance_uuid, candidate):
        is_refused = (instance_uuid, candidate.root) == self._refused
        return self._result if is_refused else super().answer(instance_uuid, candidate)


@pytest.mark.parametrize("uuid", ["i0", "i1", "i2"])
def test_an_instance_whose_refused_claim_ends_the_request_is_the_one_without_a_host(uuid):
    hosts = [host_with_candidate(f"h{number}").ram(65536 - number) for number in range(3)]
    request, number = SchedulingRequest.of(make_spec(instance_uuid="i0"), ["i0", "i1", "i2"]), int(uuid[1])
    conf = make_conf(enabled_filters=["NumInstancesFilter"], max_instances_per_host=1)
    why = decide(conf, hosts, request, RefusedOnce(uuid, f"h{number}", final=True)).decision.why
    assert (why.number, why.placed) == (number + 1, 2)


@pytest.mark.parametrize("uuid", ["i0", "i1", "i2"])
def test_an_instance_whose_claim_was_refused_is_the_one_without_a_host(uuid):
    conf = make_conf(enabled_filters=["NumInstancesFilter"], max_instances_per_host=1)
    hosts = [host_with_candidate(f"h{number}").ram(65536 - number) for number in range(3)]
    uuids, number = ["i0", "i1", "i2"], int(uuid[1])
    request = SchedulingRequest.of(make_spec(instance_uuid="i0"), uuids)
    decision = decide(conf, hosts, request, RefusedOnce(uuid, f"h{number}")).decision
    why = decision.why
    assert (why.number, why.placed, why.suitable) == (number + 1, 2, 0)
    assert decision.filters[-1].instance == uuid
    assert decision.cause.words.startswith(f"for instance {number + 1} of 3; 2 found a host, which was")


def test_a_claim_that_was_not_sent_is_not_refused():
    hosts = [host_with_candidate("h0").ram(65536), host_with_candidate("h1").ram(4096)]
    answers = {
        uuid_of("h0"): Written(Outcome.REFUSED, cause="of what the instance keeps", final=True),
        uuid_of("h1"): Written(Outcome.REFUSED, final=True),
    }
    request = SchedulingRequest.of(make_spec(instance_uuid="i0"), ["i0", "i1"])
    conf = make_conf(enabled_filters=["NumInstancesFilter"], max_instances_per_host=1)
    decision = decide(conf, hosts, request, FakeClaims(answers)).decision
    outcomes = dict(zip(decision.hosts.host, decision.hosts.outcome, strict=True))
    assert (outcomes["h0"], outcomes["h1"]) == ("claim refused", "passed")


def test_a_claim_is_refused_by_one_node_of_a_host():
    hosts = [host_with_candidate(f"n{number}").set(host="ironic").ram(65536 - number) for number in range(4)]
    request = SchedulingRequest.of(make_spec(instance_uuid="i0"), ["i0"])
    decision = decide(make_conf(enabled_filters=[]), hosts, request, RefusedOnce("i0", "n0")).decision
    assert list(zip(decision.hosts.node, decision.hosts.outcome, strict=True)) == [
        ("n1", "chosen"), ("n0", "claim refused"), ("n2", "passed"), ("n3", "passed"),
    ]  # fmt: skip


def test_a_password_in_an_error_is_not_recorded():
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    decision = finished(request, ValueError("no answer from http://nova:pa/ss@neutron/v2"))
    assert (decision.error.kind, decision.error.text) == (
        "ValueError",
        "no answer from http://***@neutron/v2",
    )


def finished(request, error=None):
    """The document of a request for which nothing was looked for."""
    found = trace.Trace(request)
    found.finish(error)
    return found.decision


def received(**fields):
    """A request as it is read from the wire."""
    return objects.hydrate(make_spec(instance_uuid="i", **fields).obj_to_primitive(), None)


def test_the_request_is_kept_as_it_was_received():
    spec = received(hints={"same_host": ["A"]})
    found = trace.Trace(SchedulingRequest.of(spec, ["i"]))
    spec.requested_destination = objects.Destination(host="what a pre-filter makes")
    spec.flavor.extra_specs["trait:HW_GPU"] = "required"
    spec.scheduler_hints["same_host"].append("B")
    found.finish(None)
    kept = decode(encode(found.decision)).request_spec()
    assert kept.scheduler_hints == {"same_host": ["A"]}
    assert kept.flavor.extra_specs == {}
    assert kept.requested_destination is None


def test_a_password_in_the_cell_of_a_destination_is_not_kept():
    cell = objects.CellMapping(
        uuid=CELL,
        name="cell1",
        transport_url="rabbit://u:secret@h/",
        database_connection="mysql://u:secret@h/",
    )
    destination = objects.Destination(host="h1", cell=cell)
    for spec in (received(requested_destination=destination), make_spec(requested_destination=destination)):
        encoded = encode(finished(SchedulingRequest.of(spec, ["i"])))
        assert b"secret" not in encoded
        assert decode(encoded).request_spec().requested_destination.cell.name == "cell1"
        assert spec.requested_destination.cell.transport_url == "rabbit://u:secret@h/"


def test_a_request_that_is_too_large_is_not_kept():
    spec = received(hints={"query": ["x" * LARGEST_SPEC]})
    encoded = encode(finished(SchedulingRequest.of(spec, ["i"])))
    assert decode(encoded).request_spec() is None
    assert len(encoded) < 4096


def test_of_a_served_request_some_hosts_are_named_for_each_filter():
    conf = make_conf(enabled_filters=["NumInstancesFilter"], max_instances_per_host=3)
    full = [host_with_candidate(f"full{number}").num_instances(3) for number in range(20)]
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    decision = decide(conf, [*full, host_with_candidate("good")], request).decision
    assert decision.hosts.host == ["good", *(f"full{number}" for number in range(NAMED))]
    assert not decision.hosts.complete
    (stage,) = [one for one in rendering.funnel(decision) if one.kind == "filter"]
    assert (stage.start, stage.end, [one.hosts for one in stage.out]) == (21, 1, [NAMED])


def test_of_a_failed_request_all_hosts_are_named_with_what_they_fail():
    conf = make_conf(enabled_filters=["NumInstancesFilter"], max_instances_per_host=3)
    full = [host_with_candidate(f"full{number}").num_instances(3) for number in range(20)]
    decision = decide(conf, full, SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])).decision
    assert sorted(decision.hosts.host) == sorted(host.columns["host"] for host in full)
    assert decision.hosts.complete
    reasons = Counter(one.reason for one in rendering.hosts(decision))
    assert reasons == {"3 instances, limit 3": 20}
    assert {one.filter for one in rendering.hosts(decision)} == {"NumInstancesFilter"}


# -- against each filter alone ----------------------------------------------------------------------------

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
FLEETS = 10
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
    members = {"members": ["A", "i"], "hosts": random.choice([[], ["h1", "h2"]])}
    return make_spec(
        random.choice([None, None, None, {"aggregate_instance_extra_specs:disk": "ssd"}]),
        image=random.choice([None, None, {"hw_architecture": "aarch64"}, {"hw_architecture": "x86_64"}]),
        hints=random.choice(
            [None, {"different_host": ["B"]}, {"different_host": ["B"]}, {"same_host": ["A"]}]
        ),
        group=group and {"uuid": "g", "policy": group, "policies": [group], **members},
        sizes={"memory_mb": random.choice([64, 512, 2048]), "vcpus": random.choice([1, 1, 4])},
        availability_zone=random.choice([None, None, None, "a"]),
        instance_uuid="i",
    )


@pytest.mark.slow
def test_documents_of_random_requests_say_what_each_filter_alone_says(conf, monkeypatch):
    """With all hosts, as of a failed request: each is rejected by the first filter that the host does not pass."""
    for module in (trace, record):
        monkeypatch.setattr(module, "NAMED", 100)
    monkeypatch.setattr(trace, "BEST", 100)
    monkeypatch.setattr(failed_constraints, "MOST_SETS", 100)
    seen = Counter()
    for seed in range(FLEETS):
        random = Random(seed)
        hosts = [random_host(number, random) for number in range(random.choice([5, 12]))]
        for _ in range(REQUESTS):
            spec = random_spec(random)
            original = deepcopy(spec)
            refusing = {uuid_of("h1"): REFUSED} if random.random() < 0.2 else {}
            found = decide(conf, hosts, SchedulingRequest.of(spec, ["i"]), FakeClaims(refusing))
            seen[found.decision.result] += 1
            alone = first_rejecting(hosts, original, conf)
            lines = list(rendering.hosts(decode(encode(found.decision))))
            assert {line.host for line in lines} == alone.keys()
            for line in lines:
                seen[line.filter] += 1
                assert line.filter == alone[line.host], line
                assert bool(line.reason) == bool(line.filter)
                check_verdicts(found.decision, line)
    assert min(seen["failed"], seen["scheduled"]) > 30, seen
    assert set(RULES) - {"ServerGroupAffinityFilter"} <= set(seen), seen


def first_rejecting(hosts, spec, conf):
    """The first filter that each host does not pass, by host; "" for none."""
    classes = {cls.__name__: cls for cls in builtin.ALL}
    judged = [(name, verdicts(classes[name](conf), make_view(hosts), request_of(spec))) for name in RULES]
    return {
        host.columns["host"]: next((name for name, passed in judged if not passed[index]), "")
        for index, host in enumerate(hosts)
    }


def check_verdicts(decision, line):
    verdicts = list(rendering.verdicts(decision, line))
    decisive = [number for number, one in enumerate(verdicts) if one["decisive"]]
    assert [verdicts[number]["filter"] for number in decisive] == ([line.filter] if line.filter else [])
    end = decisive[0] if decisive else len(verdicts)
    before = {rendering.ACCEPTED, rendering.NOT_APPLICABLE}
    assert {one["verdict"] for one in verdicts[:end]} <= before
    assert {one["verdict"] for one in verdicts[end + 1 :]} <= {rendering.NOT_RUN}
