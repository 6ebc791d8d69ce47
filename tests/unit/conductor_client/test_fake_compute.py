import pytest

from conductor_client import journal, retries
from conductor_client.fake_compute import Failures, FakeCompute
from conductor_client.journal import Journal
from scheduler import objects
from tests.unit.conductor_client.doubles import (
    Allocations,
    Recorder,
    Rows,
    context,
    make_selection,
    make_spec,
)

NEVER = Failures()
ALWAYS = Failures(hosts=frozenset({"a"}))


class Scheduler:
    def __init__(self):
        self.told = []

    def update_instance_info(self, _context, host, instances):
        self.told.append((host, [one.uuid for one in instances]))


def build(failures=NEVER, max_attempts=3, scheduler=None, rows=None):
    conductor, allocations, book = Recorder(), Allocations(), Journal()
    allocations.held["i"] = "a"
    scheduler, rows = scheduler or Scheduler(), rows or Rows()
    compute = FakeCompute(conductor, allocations, book, scheduler, rows, failures)
    properties = retries.on_host(retries.first(make_spec(), max_attempts), make_selection("a"))
    alternates = [make_selection("b")]
    compute.build_and_run_instance(context(), "i", make_spec(), properties, "a", "a.example.net", alternates)
    (record,) = book.records()
    return compute, conductor, allocations, record


def test_success_keeps_the_allocation_and_is_told():
    scheduler, rows = Scheduler(), Rows()
    compute, conductor, allocations, record = build(scheduler=scheduler, rows=rows)
    assert (record.state, record.host) == (journal.ACTIVE, "a")
    assert allocations.held == {"i": "a"}
    assert conductor.casts == []
    assert compute.instances == {"a": {"i"}}
    assert rows.seen == [("i", "a", "a.example.net", 1)]
    assert scheduler.told == [("a", ["i"])]


def test_a_report_that_fails_harms_nobody():
    scheduler, rows = Scheduler(), Rows()
    rows.built = rows.failed = None
    _compute, _conductor, _allocations, record = build(scheduler=scheduler, rows=rows)
    assert record.state == journal.ACTIVE
    assert scheduler.told
    _compute, conductor, _allocations, _record = build(ALWAYS, rows=rows)
    assert conductor.casts


def test_failure_gives_the_allocation_back_and_asks_for_another_host():
    rows = Rows()
    compute, conductor, allocations, record = build(ALWAYS, rows=rows)
    assert rows.seen == ["a.example.net"]
    assert allocations.held == {}
    assert not any(compute.instances.values())
    ((method, sent),) = conductor.casts
    assert method == "build_instances"
    assert sent["instance_uuids"] == ["i"]
    assert [[one.service_host for one in hosts] for hosts in sent["host_lists"]] == [["b"]]
    assert sent["filter_properties"]["retry"]["hosts"] == [["a", "a.example.net"]]
    assert sent["filter_properties"]["retry"]["exc_reason"] == record.last.detail
    assert record.state == journal.FAILED


def test_of_an_anti_affinity_group_a_host_takes_one_member_and_no_failure_is_counted():
    conductor, allocations, book, rows = Recorder(), Allocations(), Journal(), Rows()
    compute = FakeCompute(conductor, allocations, book, Scheduler(), rows)
    group = objects.InstanceGroup(policy="anti-affinity", members=["i", "j"])
    properties = retries.first(make_spec(), 3)
    for instance, spec in (
        ("i", make_spec(instance_group=group)),
        ("j", make_spec(instance_group=group)),
        ("k", make_spec(instance_group=None)),
    ):
        allocations.held[instance] = "a"
        compute.build_and_run_instance(context(), instance, spec, properties, "a", "a.example.net", [])
    assert compute.instances == {"a": {"i", "k"}}
    assert allocations.held.keys() == {"i", "k"}
    assert [sent["instance_uuids"] for _method, sent in conductor.casts] == [["j"]]
    assert "a.example.net" not in rows.seen


def test_failure_of_the_only_attempt_is_final():
    _compute, conductor, allocations, record = build(ALWAYS, max_attempts=1)
    assert allocations.held == {}
    assert conductor.casts == []
    assert record.state == journal.ERROR


@pytest.mark.parametrize(
    ("failures", "fails"),
    [
        (Failures(), False),
        (Failures(hosts=frozenset({"a"})), True),
        (Failures(hosts=frozenset({"b"})), False),
        (Failures(rate=1.0), True),
    ],
)
def test_which_builds_fail(failures, fails):
    assert (failures.reason("i", "a") is not None) is fails


def test_failures_by_chance_are_the_same_again_and_about_as_many_as_asked_for():
    def drawn(seed):
        return [Failures(rate=0.3, seed=seed).reason(f"i{n}", "a") is not None for n in range(1000)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert 200 < sum(drawn(1)) < 400
