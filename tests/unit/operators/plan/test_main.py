"""berth-plan: arguments, what is printed, and exit statuses."""

import contextlib
import csv
import io
import json
import os
import re
import shlex
import stat

import pytest
import yaml

from scheduler.operators import app
from scheduler.operators.plan import command
from scheduler.operators.plan.command import NO_PLACE, ProgressLine
from scheduler.operators.snapshot import snapshot
from tests.builders import uuid_of
from tests.unit.operators.plan.clouds import MadeCloud, berth_plan, flavor, group, node


@pytest.fixture
def cloud():
    """Four hosts in two racks and zones; the instances of the first two find a place elsewhere."""
    hosts = [node(f"h{number}").aggregate(f"rack{number % 2}").az(f"z{number // 2}") for number in range(4)]
    made = MadeCloud(*hosts)
    made.put("i0", "h0", flavor("m1", ram=2048)).put("i1", "h1", flavor("m1", ram=2048))
    return made


@pytest.fixture
def run(cloud, tmp_path, monkeypatch):
    """Run the command on the cloud; returns its exit status, its output and what it logged."""

    def read(_conf, progress):
        progress("hosts", 0, 1)
        found = cloud.snapshot()
        found.stored.latest = lambda at_most, since: list(cloud.requests)[-at_most:]
        found.stored.image = None
        return contextlib.nullcontext(found)

    monkeypatch.setattr(command.snapshot, "read", read)

    return berth_plan(tmp_path)


def test_a_drain_is_told(run):
    status, output, _ = run("drain", "h0")
    assert status == 0
    assert "h0: 1 of 1 instance can move" in output
    assert re.search(rf"1 \| {uuid_of('i0')} \| i0 +\| m1 +\| h0", output)


def test_plans_name_servers_projects_and_groups_beside_their_ids(run, cloud, tmp_path):
    together = group("together", "affinity", ["m0"])
    cloud.put("m0", "h0", in_group=together)
    page = tmp_path / "plan.html"
    told = json.loads(run("drain", "h0", "-f", "json", "--html", str(page))[1])
    names = ("name", "project_id", "server_group_name")
    found = {one["instance"]: [one[name] for name in names] for one in told["moves"] + told["without_place"]}
    assert found == {uuid_of("i0"): ["i0", "project", None], uuid_of("m0"): ["m0", "project", "together"]}
    html = page.read_text()
    assert "together" in html
    assert "project" in html
    policy = json.loads(run("policy", "--set", "ram_weight_multiplier=-1", "-f", "json")[1])
    assert {one["name"] for one in policy["choices"]} >= {"i0", "i1"}


@pytest.mark.parametrize(
    ("argv", "hosts"),
    [
        (["h0", "h1"], ["h0", "h1"]),
        (["--aggregate", "rack1"], ["h1", "h3"]),
        (["--zone", "z1"], ["h2", "h3"]),
        (["--cell", "0001"], ["h0", "h1", "h2", "h3"]),
        (["h0", "--zone", "z1"], ["h0", "h2", "h3"]),
    ],
    ids=str,
)
def test_hosts_are_named_in_many_ways(run, argv, hosts):
    status, output, _ = run("drain", *argv, "-f", "json")
    assert json.loads(output)["hosts"] == hosts
    assert status == (NO_PLACE if len(hosts) == 4 else 0)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["drain", "h9"], "There is no host h9"),
        (["drain", "--zone", "zz"], "There is no availability zone zz"),
        (["drain", "--aggregate", "rock1"], "There is no aggregate rock1; did you mean rack1?"),
        (["drain"], "No host is named"),
        (["survive", "--by", "rack"], "--by takes zone or aggregate:PATTERN"),
        (["balance", "--goal", "spred"], "There is no goal spred; did you mean spread?"),
        (["balance", "--goal", "room"], "There is no goal room"),
        (["policy"], "Nothing differs"),
        (["policy", "--set", "nothing=1"], "There is no option [filter_scheduler]/nothing"),
        (["policy", "--set", "a=1", "--since", "yesterday"], "neither an age such as 15m nor a time such as"),
        (["capacity"], "Give either --all or one of"),
        (["capacity", "--flavor", "m1", "--textfile", "x"], "--textfile needs --all"),
    ],
    ids=str,
)
def test_bad_input_is_a_clear_error(run, capsys, argv, words):
    status, output, logged = run(*argv)
    assert (status, output) == (app.NOT_RUN, "")
    errors = logged + capsys.readouterr().err
    assert words in errors
    assert "Traceback" not in errors


def test_what_cannot_be_read_is_a_clear_error(run, monkeypatch):
    def unreadable(*_):
        raise snapshot.CloudUnreadable("The API database cannot be read")

    monkeypatch.setattr(command.snapshot, "read", unreadable)
    status, output, logged = run("drain", "h0")
    assert (status, output) == (app.NOT_RUN, "")
    assert "The API database cannot be read" in logged


def test_instances_without_a_place_are_told_with_the_reason(run, cloud):
    apart = group("apart", "anti-affinity", ["m0", "m1", "m2", "m3"])
    for number in range(4):
        cloud.put(f"m{number}", f"h{number}", in_group=apart)
    status, output, _ = run("drain", "h0")
    assert status == NO_PLACE
    assert "1 instance without a place, missing 1 DISK_GB, 1024 MEMORY_MB, 1 VCPU" in output
    assert "3 hosts are rejected only by ServerGroupAntiAffinityFilter" in output


def test_commands_are_all_that_is_printed(run):
    _, output, _ = run("drain", "h0", "--commands")
    moves = [line for line in output.splitlines() if "server migrate" in line]
    pattern = rf".*openstack server migrate --live-migration --host h\d {uuid_of('i0')}.*"
    assert [bool(re.fullmatch(pattern, line)) for line in moves] == [True]


def test_formats(run):
    assert yaml.safe_load(run("drain", "h0", "-f", "yaml")[1])["plan"] == "drain"
    (row,) = csv.DictReader(io.StringIO(run("drain", "h0", "-f", "csv")[1]))
    assert (row["Instance"], row["From"]) == (uuid_of("i0"), "h0")


def test_failures_that_are_survived(run):
    status, output, _ = run("survive", "--by", "aggregate:rack*")
    assert status == 0
    assert "2 of 2 failures would be survived" in output
    assert "more of flavor m1 can be added until a failure is not survived" in output


@pytest.mark.parametrize(
    "argv",
    [
        ["drain", "h0"],
        ["survive"],
        ["balance"],
        ["balance", "--goal", "pack", "--moves", "1"],
        ["policy", "--set", "ram_weight_multiplier=-1"],
        ["capacity", "--flavor", "m1"],
        ["capacity", "--all"],
        ["dry-run", "--flavor", "m1", "--count", "2"],
    ],
    ids=" ".join,
)
def test_each_plan_has_a_page(run, tmp_path, argv):
    page = tmp_path / "plan.html"
    status, output, _ = run(*argv, "--html", str(page))
    assert status == 0
    assert output
    html = page.read_text()
    assert html.count("<svg") >= 1
    assert "prefers-color-scheme: dark" in html
    # long tables are sorted and searched by the one script that the page allows
    assert html.count("<script") <= 1
    assert f": {shlex.join(argv)}<" in html
    assert "database y, Berth" not in html
    assert "database x, Berth" in html
    assert "http:" not in html
    assert "https:" not in html


def test_a_page_shows_names_of_users_as_they_are(run, cloud, tmp_path):
    cloud.put("i2", "h0", flavor("<b>alert(1)</b>"))
    page = tmp_path / "plan.html"
    run("drain", "h0", "--html", str(page))
    assert "&lt;b&gt;" in page.read_text()
    assert "<b>" not in page.read_text()


def test_metrics_are_written_in_one_step(run, tmp_path):
    file = tmp_path / "berth.prom"
    assert run("capacity", "--all", "--textfile", str(file))[0] == 0
    assert 'berth_capacity_instances{flavor="m1",zone="z0"}' in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o644
    status, _, logged = run("capacity", "--all", "--textfile", str(tmp_path / "none" / "x"))
    assert status == app.NOT_RUN
    assert "Cannot write" in logged


def test_links_and_fifos_of_others_beside_the_metrics_are_left_alone(run, tmp_path):
    directory, precious = tmp_path / "collector", tmp_path / "precious"
    directory.mkdir()
    precious.write_text("secret")
    precious.chmod(0o600)
    os.mkfifo(directory / "a.prom.new")
    (directory / "b.prom.new").symlink_to(precious)
    for name in ("a.prom", "b.prom"):
        assert run("capacity", "--all", "--textfile", str(directory / name))[0] == 0
        assert "berth_capacity_instances" in (directory / name).read_text()
    assert (precious.read_text(), stat.S_IMODE(precious.stat().st_mode)) == ("secret", 0o600)
    assert sorted(path.name for path in directory.iterdir()) == [
        "a.prom",
        "a.prom.new",
        "b.prom",
        "b.prom.new",
    ]


def test_failures_that_need_a_hand_count_as_survived_in_status_and_metrics(run, cloud, tmp_path):
    cloud.put("paused", "h0", state="paused")
    status, output, _ = run("survive", "--by", "aggregate:rack*")
    assert "1 more failure if an operator first resets" in output
    file = tmp_path / "survive.prom"
    assert run("survive", "--all", "--by", "aggregate:rack*", "--textfile", str(file))[0] == status == 0
    assert 'berth_survives{domain="rack0",kind="failure domain"} 1.0' in file.read_text()


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_shown_on_a_terminal_only():
    moments = iter([0.0, 0.0, 0.01, 1.0, 1.0])
    terminal, file = Terminal(), io.StringIO()
    line = ProgressLine(terminal, lambda: next(moments))
    line("instances", 0, 10)
    line("instances", 1, 10)
    line("instances", 5, 10)
    assert "instances 0 of 10" in terminal.getvalue()
    assert "instances 1 of 10" not in terminal.getvalue()
    assert terminal.getvalue().endswith("instances 5 of 10")
    line.clear()
    assert terminal.getvalue().endswith("\r\x1b[K")
    ProgressLine(file)("instances", 1, 2)
    assert file.getvalue() == ""
