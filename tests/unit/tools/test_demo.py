from types import SimpleNamespace

import pytest

from conductor_client import journal
from conductor_client.journal import InstanceEvent, InstanceHistory
from tools.rig import fleet
from tools.rig.load import FLAVORS, BootRequest
from tools.rig.truth import Truth
from tools.scenarios import demo, demo_moves, demo_report


def test_requests_are_the_same_again_and_as_many_as_asked_for():
    assert demo.make_requests(50, 1) == demo.make_requests(50, 1)
    assert demo.make_requests(50, 1) != demo.make_requests(50, 2)
    assert sum(len(request.uuids) for request in demo.make_requests(50, 1)) == 50


def records_of(request, state=journal.ACTIVE):
    return [InstanceHistory(uuid, [InstanceEvent(uuid, state, host="a")]) for uuid in request.uuids]


def test_what_is_resized_was_built_can_grow_and_may_go_anywhere():
    small, medium, _, largest = FLAVORS
    failed, grown = BootRequest(["f"], small, None), BootRequest(["g"], largest, None)
    in_a_zone, anywhere = BootRequest(["z"], small, "az1"), BootRequest(["a", "b"], small, None)
    hopeless = [*records_of(failed, journal.ERROR), *records_of(grown)]
    assert demo_moves.choose([failed, grown], hopeless, FLAVORS) is None
    records = [*hopeless, *records_of(in_a_zone), *records_of(anywhere)]
    before, after, record = demo_moves.choose([failed, grown, in_a_zone, anywhere], records, FLAVORS)
    assert (record.instance_uuid, before.uuids, before.flavor, after.flavor) == ("a", ["a"], small, medium)


def test_a_story_names_the_hosts_in_order():
    events = [
        InstanceEvent("i", journal.FAILED, host="a", at=1),
        InstanceEvent("i", journal.REFUSED, host="b", at=2),
        InstanceEvent("i", journal.BUILDING, host="c", at=3),
        InstanceEvent("i", journal.ACTIVE, host="c", at=4),
    ]
    good, bad, refused = demo_report.GOOD, demo_report.BAD, demo_report.REFUSED
    assert demo_report.story(InstanceHistory("i", events)) == f"a {bad}  b {refused}  c {good}"


@pytest.mark.parametrize(
    ("state", "host", "detail", "problem"),
    [
        (journal.ACTIVE, "in az1", "", []),
        (journal.ACTIVE, "in az2", "", ["Instance i is not in az1"]),
        (journal.BUILDING, "in az1", "", [f"Instance i is still {journal.BUILDING}"]),
        (journal.ERROR, None, "No valid host was found. None is left.", []),
        (journal.ERROR, None, "Boom\nTraceback", ["Instance i: Boom"]),
    ],
)
def test_what_is_wrong_with_an_instance_is_found(state, host, detail, problem):
    hosts = {f"in {zone}": SimpleNamespace(zone=zone) for zone in ("az1", "az2")}
    record = InstanceHistory("i", [InstanceEvent("i", state, host=host, detail=detail)])
    assert demo.problems(record, "az1", hosts) == problem


@pytest.mark.parametrize(
    ("problems", "finished", "status", "shown"),
    [
        ([], True, 0, "none left over"),
        (["Left over: x"], True, 1, "Left over: x"),
        ([], False, 1, "neither built nor given up"),
    ],
)
def test_the_verdict(capsys, problems, finished, status, shown):
    assert demo_report.verdict(Truth(1, 2, problems=problems), finished) == status
    assert shown in capsys.readouterr().out


def test_each_partition_of_a_fleet_has_an_aggregate_with_its_share_of_the_hosts():
    cell = fleet.Cell("cell1", "sqlite://")
    assert fleet.Fleet(4, [cell]).partitions == []
    made = fleet.Fleet(7, [cell], partitions=2)
    assert [(each.name, len(each.hosts)) for each in made.partitions] == [("part1", 3), ("part2", 4)]
    assert {host.name for each in made.partitions for host in each.hosts} == {
        host.name for host in made.hosts
    }


def test_without_rabbitmq_several_schedulers_are_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(demo.shutil, "which", lambda *_args, **_kwargs: None)
    assert demo.world(demo.parse([])).bus == "memory"
    for options in (["--schedulers", "2"], ["--rabbit"], ["--partitions", "2"]):
        with pytest.raises(RuntimeError, match="RabbitMQ is not installed"):
            demo.world(demo.parse(options))


@pytest.mark.parametrize(
    "argv",
    [
        ["--hosts", "2", "--cells", "3"],
        ["--hosts", "2", "--cells", "1", "--partitions", "3"],
        ["--schedulers", "two"],
        ["--fail-rate", "nan"],
    ],
    ids=" ".join,
)
def test_an_argument_that_cannot_work_is_refused_in_one_line(capsys, argv):
    with pytest.raises(SystemExit) as end:
        demo.parse(argv)
    assert end.value.code == 2
    assert "error: argument" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("partitions", "purposes"),
    [
        (2, ["flavors = m1.small, m1.large", "flavors = m1.medium, m1.xlarge"]),
        (5, [*(f"flavors = m1.{size}" for size in ("small", "medium", "large", "xlarge")), "zones = az2"]),
    ],
)
def test_each_partition_has_requests_of_its_own(partitions, purposes, monkeypatch):
    monkeypatch.setattr(demo.shutil, "which", lambda *_args, **_kwargs: "here")
    world = demo.world(demo.parse(["--partitions", str(partitions)]))
    lines = world.partition_options("part1").splitlines()
    assert [line for line in lines if line.startswith(("flavors", "zones"))] == purposes
    assert lines[:2] == ["[berth]", "partition = part1"]
    assert world.partition_options().splitlines() == lines[2:], "as a router has them"
    names = [f"scheduler-part{number + 1}-1" for number in range(partitions)]
    assert [daemon.host for daemon in world.daemons] == [*names, "router-1"]


@pytest.mark.parametrize(
    ("found", "said"),
    [({}, "2 No alternate host is left to try."), ({"i": "RamFilter rejected 2"}, "2 RamFilter rejected 2")],
    ids=["of a conductor", "of a scheduler"],
)
def test_an_instance_in_error_is_explained(capsys, found, said):
    record = InstanceHistory(
        "i", [InstanceEvent("i", journal.ERROR, detail="No alternate host is left to try.", at=9)]
    )
    demo_report.errors([record, record], found)
    assert said in " ".join(capsys.readouterr().out.split())


def test_without_an_error_there_is_nothing_to_explain(capsys):
    demo_report.errors([InstanceHistory("i", [InstanceEvent("i", journal.ACTIVE)])], {})
    assert capsys.readouterr().out == ""


def test_what_is_being_started_is_said_with_the_time(capsys):
    announce = demo_report.progress(iter([10.0, 14.7]).__next__)
    announce("RabbitMQ")
    announce("Placement")
    assert capsys.readouterr().out == "    0.0 s  starting RabbitMQ ...\n    4.7 s  starting Placement ...\n"


def test_a_run_that_built_nothing_has_failed(capsys):
    assert demo_report.verdict(Truth(0, 2, []), True) == 1
    assert "No instance was built" in capsys.readouterr().out


def test_no_line_is_over_120_columns(capsys):
    demo_report.table(("A", "B"), [("short", "word " * 60)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 120
