"""berth-plan --run: arguments, files, what is printed, and exit statuses."""

from contextlib import nullcontext
from datetime import UTC, datetime
import json
import os
import socket
import sys

import pytest

from scheduler.operators import app
from scheduler.operators.plan import command
from scheduler.operators.plan.command import NO_PLACE
from scheduler.operators.run import nova_api, run_command
from scheduler.operators.shown.command import UNKNOWN
from tests.builders import uuid_of
from tests.unit.operators.plan.clouds import MadeCloud, berth_plan, flavor, node
from tests.unit.operators.run.fake_cloud import FakeCloud, Machine


class Both:
    """The cloud as nova's API has it, and as the databases have it."""

    def __init__(self):
        self.nova = FakeCloud()
        self.nova.machines = {f"h{number}": Machine() for number in range(4)}
        self.flavors = {}
        self.racks = {f"h{number}": f"rack{number % 2}" for number in range(4)}
        self.at = datetime.now(UTC).timestamp()

    def put(self, name, host, of=None, **values):
        self.flavors[uuid_of(name)] = name, of or flavor("m1", ram=1024)
        self.nova.put(uuid_of(name), host, **values)
        self.nova.allocations[uuid_of(name)] = {self.node(host)}
        return self

    def node(self, host):
        return next(each.columns["uuid"] for each in self.hosts() if each.columns["host"] == host)

    def hosts(self):
        return [node(host).aggregate(rack) for host, rack in self.racks.items()]

    def snapshot(self):
        made = MadeCloud(*self.hosts())
        for uuid, one in self.nova.servers.items():
            name, of = self.flavors[uuid]
            made.put(name, one.compute_host, of, state=one.vm_state, task=one.task_state or "")
        found = made.snapshot()
        found.read_at = self.at
        return found


@pytest.fixture
def cloud(monkeypatch, tmp_path):
    made = Both().put("i0", "h0").put("i1", "h0", state="stopped").put("i2", "h1")
    nova = made.nova
    for module in (command, run_command):
        monkeypatch.setattr(module.snapshot, "read", lambda _conf, _progress: nullcontext(made.snapshot()))
    begin = nova.begin

    def with_nodes(uuid, way, target):
        begin(uuid, way, target)
        nova.allocations = {
            key: {made.node(one.removeprefix("node-")) if one.startswith("node-") else one for one in held}
            for key, held in nova.allocations.items()
        }

    nova.begin = with_nodes
    monkeypatch.setattr(nova_api, "connect", lambda _name: nova)
    monkeypatch.setattr(run_command, "PlacementView", lambda _conf: nova)
    monkeypatch.setattr(run_command.RunnablePlan, "timing", nova.timing)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return made


@pytest.fixture
def run(cloud, tmp_path):
    """Run the command; returns its exit status, its output, and what standard error has."""
    return berth_plan(tmp_path)


def on(cloud, host):
    return sorted(uuid for uuid, one in cloud.nova.servers.items() if one.compute_host == host)


def test_nothing_is_changed_without_run(run, cloud):
    assert run("drain", "h0")[0] == 0
    assert run("balance")[0] == 0
    assert run("survive")[0] == 0
    assert run("drain", "h0", "--evacuate")[0] == 0
    assert cloud.nova.calls == []


def test_a_drain_is_carried_out_with_a_line_for_each_move(run, cloud, tmp_path):
    status, output, errors = run("drain", "h0", "--run")
    assert (status, on(cloud, "h0")) == (0, [])
    assert "h0: done; 2 instances moved" in output
    assert len([line for line in errors.splitlines() if line.startswith("moved name-")]) == 2
    assert (tmp_path / "state" / "berth" / "database-x" / "drain_h0.json").exists()
    begin, _, process = cloud.nova.machines["h0"].reason.partition(", ")
    assert begin.startswith("berth-plan drain --run by ")
    assert process == f"process {os.getpid()} on {socket.gethostname()}"


def test_the_whole_is_printed_as_json(run, cloud):
    status, output, _ = run("drain", "h0", "--run", "-f", "json", "--reason", "new memory", "--parallel", "2")
    found = json.loads(output)
    assert (status, found["run"], found["state"], found["hosts"]) == (0, "drain", "done", ["h0"])
    assert {move["instance"]: (move["state"], move["way"]) for move in found["moves"]} == {
        uuid_of("i0"): ("moved", "live"),
        uuid_of("i1"): ("moved", "cold"),
    }
    assert found["disabled"] == {"h0": "new memory"}
    assert cloud.nova.most_at_once == 2


def test_a_run_has_a_page(run, cloud, tmp_path):
    page = tmp_path / "run.html"
    run("drain", "h0", "--run", "--html", str(page))
    assert "Plan carried out" in page.read_text()
    assert uuid_of("i1") in page.read_text()


def test_a_page_that_cannot_be_written_is_an_error_before_anything_is_changed(run, cloud, tmp_path):
    status, output, errors = run("drain", "h0", "--run", "--html", str(tmp_path / "none" / "run.html"))
    assert (status, output, cloud.nova.calls) == (app.NOT_RUN, "", [])
    assert "Cannot write" in errors


def test_what_was_done_is_printed_also_if_its_page_is_not_written(run, cloud, tmp_path):
    page = tmp_path / "pages" / "run.html"
    page.parent.mkdir()
    cloud.nova.later(5, page.parent.rmdir)
    status, output, errors = run("drain", "h0", "--run", "--html", str(page))
    assert (status, on(cloud, "h0")) == (UNKNOWN, [])
    assert "h0: done; 2 instances moved" in output
    assert f"Cannot write {page}" in errors


def test_instances_that_stay_are_shown_with_the_reason(run, cloud):
    cloud.put("hurt", "h0", state="rescued")
    status, output, _ = run("drain", "h0", "--run")
    assert status == NO_PLACE
    assert "nova moves no instance that is rescued" in output


def test_a_surprise_has_its_own_status(run, cloud):
    cloud.nova.ends[uuid_of("i0")] = "broken"
    status, output, _ = run("drain", "h0", "--run")
    assert status == run_command.ENDS["stopped"][1]
    assert "h0: stopped" in output
    assert "because: name-" in output
    assert "the same command goes on where this one ended" in output


def test_undo_enables_the_host_and_shows_what_was_moved(run, cloud):
    run("drain", "h0", "--run")
    status, output, _ = run("drain", "h0", "--undo")
    assert (status, cloud.nova.machines["h0"].enabled) == (0, True)
    assert "h0: enabled" in output
    assert "2 instances were moved and stay where they are" in output
    assert uuid_of("i0") in output
    assert on(cloud, "h0") == []
    assert "There is no run to undo" in run("drain", "h0", "--undo")[2]


def test_undo_leaves_a_host_that_was_disabled_for_another_reason(run, cloud):
    run("drain", "h0", "--run")
    cloud.nova.machines["h0"].reason = "broken fan"
    status, output, _ = run("drain", "h0", "--undo")
    assert (status, cloud.nova.machines["h0"].enabled) == (NO_PLACE, False)
    assert "h0: kept, it is disabled for another reason: broken fan" in output


def test_undo_leaves_a_host_that_was_disabled_before_without_a_reason(run, cloud):
    cloud.nova.machines["h0"].enabled = False
    run("drain", "h0", "--run")
    assert run("drain", "h0", "--undo")[0] == NO_PLACE
    assert not cloud.nova.machines["h0"].enabled


def test_undo_enables_also_hosts_that_have_left_the_aggregate(run, cloud):
    run("drain", "--aggregate", "rack1", "--run")
    cloud.racks["h3"] = "rack0"
    assert run("drain", "--aggregate", "rack1", "--run")[0] == 0
    status, output, _ = run("drain", "--aggregate", "rack1", "--undo")
    assert (status, "h1: enabled" in output, "h3: enabled" in output) == (0, True, True)
    assert all(one.enabled for one in cloud.nova.machines.values())


def test_undo_goes_on_after_a_host_that_nova_does_not_enable(run, cloud, monkeypatch):
    run("drain", "h0", "h1", "--run")
    enable = cloud.nova.enable

    def refusing(service):
        if service.host == "h0":
            raise nova_api.Refused("409 conflict")
        enable(service)

    monkeypatch.setattr(cloud.nova, "enable", refusing)
    status, output, _ = run("drain", "h0", "h1", "--undo")
    assert (status, "h0: kept, 409 conflict" in output, "h1: enabled" in output) == (NO_PLACE, True, True)


def test_each_cloud_and_each_goal_has_a_state_of_its_own(run, cloud, tmp_path):
    assert run("drain", "h0", "--run")[0] == 0
    with (tmp_path / "nova.conf").open("a") as config:
        config.write("[placement]\nregion_name = north/1\n")
    assert "There is no run to undo" in run("drain", "h0", "--undo")[2]
    for goal in ("spread", "pack"):
        run("balance", "--run", "--goal", goal)
    files = (file.relative_to(tmp_path / "state") for file in tmp_path.rglob("*.json"))
    assert sorted(map(str, files)) == [
        "berth/database-x/drain_h0.json",
        "berth/region-north-1/balance_pack.json",
        "berth/region-north-1/balance_spread.json",
    ]


def test_undo_leaves_open_moves_to_the_next_run(run, cloud):
    cloud.nova.ends[uuid_of("i1")] = "hangs"
    run("drain", "h0", "--run", "--move-timeout", "60")
    for words in ("h0: enabled", "h0: enabled, it was enabled already"):
        status, output, _ = run("drain", "h0", "--undo")
        assert (status, cloud.nova.machines["h0"].enabled) == (0, True)
        assert words in output
        assert "1 move that nova may still be working on" in output
    cloud.nova.ends.clear()
    cloud.nova.later(5, lambda: cloud.put("i1", "h0", state="stopped"))
    status, output, errors = run("drain", "h0", "--run")
    assert "0 moved, 1 open move" in errors
    assert (status, on(cloud, "h0")) == (0, [])


def test_undo_without_a_run_is_a_clear_error(run, cloud):
    status, _, errors = run("drain", "h0", "--undo")
    assert status == app.NOT_RUN
    assert "There is no run to undo" in errors


def test_balance_is_carried_out_with_no_host_disabled(run, cloud):
    big = flavor("big", ram=2048)
    for number in range(3):
        cloud.put(f"b{number}", "h2", big)
    status, output, _ = run("balance", "--run", "--moves", "2", "-f", "json")
    found = json.loads(output)
    assert (status, len(found["moves"]), found["disabled"]) == (0, 2, {})
    assert [call[0] for call in cloud.nova.calls if call[0] != "confirm"] == ["move", "move"]


def test_a_balance_goes_on_only_where_one_was_interrupted(run, cloud):
    for number in range(3):
        cloud.put(f"b{number}", "h2", flavor("big", ram=2048))
        cloud.nova.ends[uuid_of(f"b{number}")] = "compute error"
    assert run("balance", "--run", "--moves", "1")[0] == NO_PLACE
    cloud.nova.ends.clear()
    status, _, errors = run("balance", "--run", "--moves", "1")
    assert (status, "continuing" in errors, errors.count("moved ")) == (0, False, 1)


def test_a_failure_is_evacuated_with_the_part_that_needs_an_operator(run, cloud):
    cloud.put("i3", "h0", state="paused")
    cloud.nova.machines["h0"].up = False
    cloud.nova.evacuates = True
    status, output, _ = run("drain", "h0", "--run", "--evacuate")
    assert status == NO_PLACE
    assert "nova evacuates no instance that is paused before its state is reset" in output
    assert on(cloud, "h0") == [uuid_of("i3")]
    assert run("drain", "h0", "--run", "--evacuate", "--reset-states")[0] == 0
    assert on(cloud, "h0") == []


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["drain", "h0", "--parallel", "2"], "--parallel needs --run"),
        (["drain", "h0", "--reason", "x"], "--reason needs --run"),
        (["drain", "h0", "--run", "--undo"], "not allowed with argument"),
        (
            ["drain", "h0", "--run", "--commands"],
            "--commands prints a script, and --run runs the moves itself",
        ),
        (["drain", "h0", "--reset-states"], "--reset-states needs --evacuate"),
        (["drain", "--run"], "No host is named"),
        (["balance", "--run", "--parallel", "0"], "is not a whole number of 1 or more"),
    ],
    ids=" ".join,
)
def test_bad_arguments_are_clear_errors(run, cloud, capsys, argv, words):
    status, _, errors = run(*argv)
    assert status == app.NOT_RUN
    assert words in errors + capsys.readouterr().err
    assert cloud.nova.calls == []


def test_without_the_library_the_error_says_what_to_install(run, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "openstack", None)
    with pytest.raises(nova_api.NotInstalled, match=r"pip install 'berth-scheduler\[run\]'"):
        nova_api.connect(None)


def test_the_help_says_which_rights_a_run_needs(run, capsys):
    _, output, _ = run("drain", "--help")
    text = " ".join((output + capsys.readouterr().out).split())
    assert "They need the role admin" in text
    assert "os-migrate-server (migrate, migrate_live)" in text
