"""What a comparison of schedulers concludes from answers and results; the comparison itself is a command."""

import configparser
import dataclasses
import json
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from scheduler import objects
from scheduler.nova_db import schema
from scheduler.stream.loops import StreamWriter
from scheduler.stream.records import Entry, Kind
from tests.support.waiting import eventually
from tests.unit.stream.fake_broker import FakeBroker
from tools.rig import instances, truth
from tools.rig.fleet import RESERVED_MB, Cell, Fleet
from tools.rig.load import FLAVORS, BootRequest, Call, make_large_request, make_requests
from tools.rig.software import Software
from tools.side_by_side import command, counting, measuring, plot, report
from tools.side_by_side.measuring import Result
from tools.side_by_side.rig import Rig

FLEET = Fleet(12, [Cell("cell1", "sqlite://"), Cell("cell2", "sqlite://")])
RESULT = Result(
    scheduler="nova-scheduler",
    hosts=50,
    round=1,
    case=plot.SINGLE,
    callers=4,
    requests=10,
    instances=10,
    seconds=10.0,
    p50=900.0,
    p95=2000.0,
    no_valid_host=0,
    errors={},
    hosts_used=7,
    cpu={"scheduler": 1.0, "placement": 2.0, "mariadb": 0.5, "rabbitmq": 0.1, "callers": 0.1},
    others=0.3,
    memory_mb=150.0,
    problems=[],
)


def result(**changes):
    return dataclasses.replace(RESULT, **changes)


def selection(host, **changes):
    fields = {
        "compute_node_uuid": host.uuid,
        "service_host": host.name,
        "nodename": host.nodename,
        "cell_uuid": host.cell.uuid,
        "allocation_request": json.dumps({"allocations": {host.uuid: {}}}),
    }
    return objects.Selection(**{**fields, **changes})


def answer(selections, zone=None, spread=False, instances=1, started=0.0, ended=1.0):
    uuids = [f"instance-{number}" for number in range(instances)]
    return Call(BootRequest(uuids, FLAVORS[0], zone, uuids if spread else ()), started, ended, selections)


HERE = [host for host in FLEET.hosts if host.cell.name == "cell1"]
ELSEWHERE = [host for host in FLEET.hosts if host.cell.name == "cell2"]
GOOD = [selection(host) for host in HERE[:3]]


@pytest.fixture
def judge(monkeypatch):
    """A function from answers to problems; Placement has what it should have."""
    monkeypatch.setattr(truth, "check_database", lambda *_: truth.Truth())
    return lambda *answers: measuring.problems(
        SimpleNamespace(fleet=FLEET, placement_database=None, filled=frozenset()), answers
    )


def test_a_good_answer_is_true(judge):
    assert judge(answer([GOOD])) == []


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (answer([GOOD], instances=2), "another number of instances"),
        (answer([GOOD[:2]]), "not 2 alternates"),
        (answer([[GOOD[0], GOOD[1], GOOD[1]]]), "a host is twice"),
        (answer([[selection(HERE[0], cell_uuid="x"), *GOOD[1:]]]), "wrong cell"),
        (answer([[*GOOD[:2], selection(ELSEWHERE[0])]]), "alternate in another cell"),
        (answer([GOOD], zone="az3"), "wrong zone"),
        (
            answer([[selection(HERE[0], allocation_request='{"allocations": {"x": {}}}'), *GOOD[1:]]]),
            "allocation request for another host",
        ),
        (answer([GOOD, GOOD], spread=True, instances=2), "two members of an anti-affinity group"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_true_is_found(judge, given, problem):
    assert any(problem in line for line in judge(given))


def test_promised_allocations_are_compared_with_placement(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        truth,
        "check_database",
        lambda engine, expected, unknown: seen.update(expected) or truth.Truth(problems=["x"]),
    )
    rig = SimpleNamespace(fleet=FLEET, placement_database=None, filled=frozenset())
    failed = Call(BootRequest(["other"], FLAVORS[0]), 0.0, 1.0, error="NoValidHost")
    assert measuring.problems(rig, [answer([GOOD]), failed]) == ["x"]
    assert seen == {"instance-0": (HERE[0].uuid, {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20})}


def test_answers_are_summed_up():
    times = [answer([GOOD], started=number, ended=number + (number + 1) / 10) for number in range(20)]
    failed = [
        Call(BootRequest(["i"], FLAVORS[0]), 3.0, 30.0, error=error) for error in ("NoValidHost", "Boom: x")
    ]
    found = measuring.summary([*times, *failed])
    assert (found["requests"], found["instances"], found["seconds"]) == (22, 20, 30.0)
    assert (found["p50"], found["p95"]) == (1050.0, 1900.0)
    assert (found["no_valid_host"], found["errors"], found["hosts_used"]) == (1, {"Boom: x": 1}, 1)


def test_a_load_without_any_host_has_a_summary():
    failed = Call(BootRequest(["i"], FLAVORS[0]), 3.0, 4.0, error="NoValidHost")
    assert measuring.summary([failed])["p95"] == 0.0


def test_requests_are_the_same_for_a_seed_but_for_their_instances():
    first, second = make_requests(50, 3), make_requests(50, 3)
    assert [(each.flavor, each.zone) for each in first] == [(each.flavor, each.zone) for each in second]
    assert {each.uuids[0] for each in first}.isdisjoint(each.uuids[0] for each in second)
    assert {each.zone for each in first} == {None, "az1", "az2", "az3"}


def test_members_of_an_anti_affinity_request_are_a_group():
    request = make_large_request(5, spread=True)
    spec = request.spec()
    assert (spec.num_instances, spec.instance_group.members) == (5, request.uuids)
    assert spec.instance_group.policy == "anti-affinity"


RESULTS = [
    result(round=1, instances=10),
    result(round=2, instances=20),
    result(round=3, instances=10),
    result(round=1, instances=40, scheduler="Berth", p95=100.0),
    result(round=2, instances=40, scheduler="Berth", p95=200.0),
    result(round=3, instances=50, scheduler="Berth", p95=300.0),
]


def test_ratios_compare_within_a_round():
    assert report.ratios(RESULTS, "Berth") == [4.0, 2.0, 5.0]
    assert report.ratios(RESULTS[3:], "Berth") == []


def test_the_table_has_medians_and_what_was_not_true():
    text = report.table(RESULTS)
    (line,) = (line for line in text.splitlines() if line.startswith("Berth"))
    assert line.split()[1:6] == ["4.00", "4.0", "900", "200", "7"]
    assert "50 hosts, 0 instances before; medians of 3 rounds" in text
    assert "All answers are true" in text
    wrong = [result(problems=["Left over: x"], no_valid_host=3, errors={"Boom": 2})]
    text = report.table(wrong)
    for words in ("Left over: x", "3 times NoValidHost", "2 times Boom"):
        assert f"round 1, nova-scheduler, single instances, 4: {words}" in text


def test_the_table_has_what_was_measured_beside_the_loads():
    idle = {"case": measuring.IDLE, "callers": 0, "instances": 0, "seconds": 20.0}
    text = report.table([result(first_answer=2.5), result(**idle), result(**idle, scheduler="Berth")])
    assert "first answer: nova-scheduler: 1.25; Berth: 0.00." in text
    assert "Idle, per cent of a core: nova-scheduler: 5.00; Berth: 5.00." in text


def test_the_table_has_the_cpu_of_several_schedulers_over_that_of_one():
    def used(scheduler, number, placement):
        return result(scheduler=scheduler, round=number, cpu={**RESULT.cpu, "placement": placement})

    text = report.table([used("Berth", 1, 1.5), used("Berth, 3 daemons", 1, 3.0), used("Berth", 2, 7.5)])
    one, three = (line.split() for line in text.splitlines() if line.startswith("Berth"))
    assert one[-1] == "600.0"
    assert three[-2:] == ["450.0", "1.50"]


def test_the_table_has_what_was_counted_for_an_instance():
    text = report.table([result(counts={"stream: messages": 5}), result(scheduler="Berth", counts={"x": 1})])
    (line,) = (line for line in text.splitlines() if "stream: messages" in line)
    assert line.split() == ["stream:", "messages", "0.500", "0.000"]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("GET /resource_providers 200", "GET /resource_providers"),
        (
            "GET /resource_providers/b7a1a6d0-36a5-4c9d-8d3f-0f4f8f2b9d11/traits 200",
            "GET /resource_providers/UUID/traits",
        ),
        ("PUT /allocations/b7a1a6d0-36a5-4c9d-8d3f-0f4f8f2b9d11 409", "PUT /allocations/UUID 409"),
    ],
)
def test_requests_to_placement_are_counted_by_kind(line, kind):
    assert counting.kind_of(line) == kind


def test_only_what_happens_in_the_load_is_counted(tmp_path):
    requests, broker = tmp_path / "requests", FakeBroker()
    rig = SimpleNamespace(placement_requests=requests, statements=iter([100, 130]).__next__)
    writer = StreamWriter(lambda: broker.connect("writer"), "a", "host", pytest.fail)
    before = "GET /resource_providers 200\n"
    requests.write_text(before)
    broker.bodies.append(b"[]")
    with counting.Counting(rig, lambda: broker.connect("counter")) as found:
        requests.write_text(before + "POST /allocations 204\n")
        writer.publish(Kind.INTENT, Entry(instance="i", node="n"))
        writer.publish(Kind.BEAT)
        writer.start()
        eventually(lambda: len(broker.bodies) > 1)
    writer.stop()
    assert found.counts == {
        "statements of the databases": 30,
        "placement: POST /allocations": 1,
        "stream: messages": 1,
        "stream: intent": 1,
        "stream: beat": 2,
    }


def test_rounds_are_added_to_a_file_and_drawn_again(tmp_path, capsys):
    path = tmp_path / "side-by-side-50.jsonl"
    for each in RESULTS:
        measuring.append(path, each)
    assert measuring.read(path) == RESULTS
    assert command.main(["--hosts", "50", "--rounds", "0", "--output", str(tmp_path)]) == 0
    assert "Berth" in capsys.readouterr().out
    assert path.with_suffix(".txt").read_text() == report.table(RESULTS)
    assert path.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    measuring.append(path, result(problems=["x"]))
    assert command.main(["--hosts", "50", "--rounds", "0", "--output", str(tmp_path)]) == 1


def test_both_schedulers_can_read_the_configuration(tmp_path):
    rig = Rig(tmp_path, Software(tmp_path), hosts=2, cells=1)
    path = rig.configure_nova("fake://", "[berth]\nmirror_interval = 7\n")
    assert rig.conf.berth.mirror_interval == 7
    nova = configparser.ConfigParser()
    nova.read(path)
    assert nova["DEFAULT"]["state_path"] == nova["oslo_concurrency"]["lock_path"] == str(tmp_path)


def test_fewer_hosts_than_the_loads_need_are_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        command.main(["--hosts", "20", "--output", str(tmp_path)])
    assert "at least 50" in capsys.readouterr().err


def test_instances_are_spread_over_hosts_with_room():
    placed = instances.place(FLEET, 300)
    assert placed == instances.place(FLEET, 300)
    assert len({each.uuid for each in placed}) == 300
    held = [each for each in placed if each.host == FLEET.hosts[0]]
    assert 8 < len(held) < 60
    assert sum(each.amounts["DISK_GB"] for each in held) <= FLEET.hosts[0].hardware.disk_gb


def test_hosts_cannot_be_filled_beyond_their_room():
    with pytest.raises(ValueError, match="12 hosts have no room for 5000 instances"):
        instances.place(FLEET, 5000)


def test_computes_report_what_they_were_filled_with(tmp_path):
    url = f"sqlite:///{tmp_path}/cell1.sqlite"
    fleet = Fleet(3, [Cell("cell1", url)])
    fleet.placed = instances.place(fleet, 20)
    fleet.write(f"sqlite:///{tmp_path}/api.sqlite", f"sqlite:///{tmp_path}/cell0.sqlite")
    engine = sa.create_engine(url)
    nodes = schema.compute_nodes
    with engine.connect() as connection:
        rows = connection.execute(sa.select(nodes).order_by(nodes.c.host)).all()
    engine.dispose()
    for row, host in zip(rows, fleet.hosts, strict=True):
        held = [each.amounts for each in fleet.placed if each.host == host]
        assert row.running_vms == len(held) == int(json.loads(row.stats)["num_instances"])
        assert row.free_ram_mb == host.hardware.memory_mb - RESERVED_MB - sum(
            each["MEMORY_MB"] for each in held
        )
