import pytest

from conductor_client import journal
from conductor_client.journal import Event, Record
from tools import demo, demo_report, demo_run, fleet, vhosts
from tools.small_cloud import Schedulers
from tools.truth import Truth


def test_requests_are_the_same_again_and_as_many_as_asked_for():
    assert demo_run.make_requests(50, 1) == demo_run.make_requests(50, 1)
    assert demo_run.make_requests(50, 1) != demo_run.make_requests(50, 2)
    assert sum(len(request.uuids) for request in demo_run.make_requests(50, 1)) == 50


def test_a_request_as_a_conductor_sends_it():
    (request,) = demo_run.make_requests(1, 1)
    spec = request.spec()
    assert spec.instance_uuid == request.uuids[0]
    assert {"VCPU": spec.vcpus, "MEMORY_MB": spec.memory_mb, "DISK_GB": spec.root_gb} == request.amounts


def test_a_story_names_the_hosts_in_order():
    events = [
        Event("i", journal.FAILED, host="a", at=1),
        Event("i", journal.REFUSED, host="b", at=2),
        Event("i", journal.BUILDING, host="c", at=3),
        Event("i", journal.ACTIVE, host="c", at=4),
    ]
    good, bad, refused = demo_report.GOOD, demo_report.BAD, demo_report.REFUSED
    assert demo_report.story(Record("i", events)) == f"a {bad}  b {refused}  c {good}"


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


@pytest.mark.parametrize(
    ("url", "cell_url"),
    [
        ("rabbit://u:p@host:5672/", "rabbit://u:p@host:5672/berth-cell1"),
        ("rabbit://u:p@host:5672//", "rabbit://u:p@host:5672/berth-cell1"),
        ("rabbit://u:p@host/nova?ssl=1", "rabbit://u:p@host/nova-cell1?ssl=1"),
    ],
)
def test_virtual_hosts_of_cells(url, cell_url):
    assert vhosts.sibling(url, "cell1") == cell_url


def test_each_partition_of_a_fleet_has_an_aggregate_with_its_share_of_the_hosts():
    cell = fleet.Cell("cell1", "sqlite://")
    assert fleet.Fleet(4, [cell]).partitions == []
    made = fleet.Fleet(7, [cell], partitions=2)
    assert [(each.name, len(each.hosts)) for each in made.partitions] == [("part1", 3), ("part2", 4)]
    assert {host.name for each in made.partitions for host in each.hosts} == {
        host.name for host in made.hosts
    }


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Schedulers(), "1"),
        (Schedulers(1, 3), "3"),
        (Schedulers(2, 3), "3 in each of 2 partitions, and a router"),
    ],
)
def test_the_schedulers_in_words(wanted, said):
    assert demo_report.schedulers(wanted) == said


def test_without_rabbitmq_several_schedulers_are_refused_in_one_line(monkeypatch):
    monkeypatch.setattr(demo_run.shutil, "which", lambda *_args, **_kwargs: None)
    with pytest.raises(RuntimeError, match="install it, or name one by --rabbit"), demo_run.own_broker():
        pass


@pytest.mark.parametrize("url", ["rabbit://u:p@host:5672/", "rabbit://u:p@host/nova?ssl=1"])
def test_a_run_has_a_virtual_host_of_its_own(url):
    first, second = vhosts.of_run(url), vhosts.of_run(url)
    assert first != second
    assert "/berth-demo-" in first
    assert "/nova" not in first


@pytest.mark.parametrize(
    "argv",
    [
        ["--hosts", "0"],
        ["--cells", "0"],
        ["--hosts", "2", "--cells", "3"],
        ["--partitions", "0"],
        ["--partitions", "9"],
        ["--hosts", "2", "--cells", "1", "--partitions", "3"],
        ["--schedulers", "0"],
        ["--schedulers", "two"],
        ["--instances", "-1"],
        ["--fail-rate", "1.5"],
        ["--fail-rate", "nan"],
        ["--hosts", "many"],
        ["--rabbit", "host:5672"],
        ["--rabbit", "rabbit://u:p@host:port/"],
        ["--rabbit", "rabbit://host/"],
    ],
    ids=" ".join,
)
def test_an_argument_that_cannot_work_is_refused_in_one_line(capsys, argv):
    with pytest.raises(SystemExit) as end:
        demo.arguments(argv)
    assert end.value.code == 2
    assert "error: argument" in capsys.readouterr().err.splitlines()[-1]


def test_virtual_hosts_are_removed_if_a_later_one_cannot_be_made(monkeypatch):
    done = []

    def control(what, *command):
        done.append(command[:2])
        if command[1] == "b":
            raise RuntimeError("Cannot make virtual host b")

    monkeypatch.setattr(vhosts, "_control", control)
    monkeypatch.setattr(vhosts, "_check_answer", lambda url: None)
    with pytest.raises(RuntimeError, match="b"), vhosts.made(["rabbit://u:p@h/a", "rabbit://u:p@h/b"]):
        pytest.fail("not reached")
    assert done == [("add_vhost", "a"), ("set_permissions", "-p"), ("add_vhost", "b"), ("delete_vhost", "a")]


def test_a_run_that_built_nothing_has_failed(capsys):
    assert demo_report.verdict(Truth(0, 2, []), True) == 1
    assert "No instance was built" in capsys.readouterr().out


def test_a_terminal_without_utf_8_gets_ascii():
    assert demo_report.signs("ascii") == ("+", "x", "-")
    assert demo_report.signs("utf-8")[0] == "\N{CHECK MARK}"


def test_no_line_is_over_120_columns(capsys):
    demo_report.table(("A", "B"), [("short", "word " * 60)])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert max(map(len, lines)) <= 120
