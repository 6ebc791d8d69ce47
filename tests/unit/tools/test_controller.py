"""tools/berth controller, tools/berth image and tools/berth cluster: what they compare, and what they write for the servers they start."""

import hashlib

import pytest

from tools.rig import images, namespaces, packages
from tools.rig.haproxy import HaProxy
from tools.rig.namespaces import BRIDGE_ADDRESS, Network
from tools.scenarios.controller_steps import NOT_OURS
from tools.scenarios.image_steps import digest_of
from tools.scenarios.transcript import Transcript


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("opt/berth/lib/python3.11/__pycache__", True),
        ("var/lib/berth/report", True),
        ("var/lib/systemd/timers/stamp-berth-plan.timer", True),
        ("etc/systemd/system/timers.target.wants/berth-plan.timer", True),
        ("var/lib/nova/berth-shadow.jsonl", True),
        ("var/lib/dpkg/info/berth-scheduler.list", False),
        ("var/log/journal/0", False),
        ("proc/1", False),
        ("processes", True),
    ],
)
def test_files_that_come_and_go_are_not_left_over(path, ours):
    assert bool(NOT_OURS.match(path)) is not ours


def test_one_server_of_galera_is_the_writer_and_the_others_are_backups(tmp_path):
    writers = [(f"10.0.0.{number}:3306", 9000 + number) for number in range(3)]
    HaProxy(Network(["lb1"]), "lb1", writers, [8001, 8002], tmp_path / "haproxy")
    lines = (tmp_path / "haproxy/haproxy.cfg").read_text().splitlines()
    servers = [line.split() for line in lines if line.lstrip().startswith("server ")]
    assert [words[2] for words in servers] == [
        *(address for address, _ in writers),
        f"{BRIDGE_ADDRESS}:8001",
        f"{BRIDGE_ADDRESS}:8002",
    ]
    assert ["backup" in words for words in servers] == [False, True, True, False, False]
    assert "    bind 0.0.0.0:3306" in lines


def test_a_package_is_built_again_when_what_it_is_made_of_changes(tmp_path):
    for name in ("scheduler/a.py", "tests/b.py", "doc/source/install.rst", "doc/source/tune.rst"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)

    def changed(name):
        before = packages.digest(tmp_path)
        (tmp_path / name).write_text("changed")
        return packages.digest(tmp_path) != before

    assert len(packages.digest(tmp_path)) == hashlib.sha256().digest_size * 2
    assert [changed(name) for name in ("tests/b.py", "doc/source/tune.rst")] == [False, False]
    assert [changed(name) for name in ("scheduler/a.py", "doc/source/install.rst")] == [True, True]


def test_an_address_moves_only_once_the_member_that_has_it_is_cut_off(monkeypatch):
    ran = []
    monkeypatch.setattr(namespaces, "run_program", ran.append)
    Network(["lb1", "lb2"]).take_over("lb2", "lb1")
    done = [" ".join(words) for words in ran]
    places = [
        next(number for number, line in enumerate(done) if words in line)
        for words in (
            " down",
            "address delete 10.199.77.2/24",
            "address add 10.199.77.2/24",
            "neighbour flush",
        )
    ]
    assert places == sorted(places)


def test_separated_members_drop_only_what_comes_from_and_goes_to_each_other(monkeypatch):
    ran = []
    monkeypatch.setattr(namespaces, "run_program", ran.append)
    network = Network(["db1", "db2", "db3"])
    network.separate("db1", ["db2"])
    assert all(words[: len(network.inside("db1"))] == [*network.inside("db1")] for words in ran)
    other = network.address("db2")
    assert [words[-6:] for words in ran] == [
        ["--append", "INPUT", "--source", other, "--jump", "DROP"],
        ["--append", "OUTPUT", "--destination", other, "--jump", "DROP"],
    ]


@pytest.mark.parametrize(
    ("changes", "again"),
    [
        ({}, False),
        ({"Dockerfile": "FROM other"}, True),
        ({"scheduler/a.py": "changed"}, True),
        ({"tests/b.py": "changed"}, False),
        ({"base": "another"}, True),
        ({"VERSION": "0.2.0"}, True),
    ],
)
def test_an_image_is_built_again_when_what_it_is_made_of_changes(tmp_path, changes, again):
    def digest(found):
        for name in ("Dockerfile", "scheduler/a.py", "tests/b.py"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(found.get(name, name))
        return digest_of(tmp_path, found.get("base", "one"), {"VERSION": found.get("VERSION", "0.1.0")})

    assert (digest({}) != digest(changes)) is again


def test_a_transcript_runs_its_lines_where_it_is_told_to():
    show = Transcript(["env", "PLACE=machine", "bash", "-c"])
    show.run("echo $PLACE")
    assert show.text == "$ echo $PLACE\nmachine\n"


def test_a_program_runs_in_a_container_as_the_user_of_its_image(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(images, "run_program", lambda words, **_: ran.append(words))
    monkeypatch.setattr(images.Container, "init", lambda _: 7)
    configuration = {"User": "nova", "Env": ["A=1"], "Cmd": ["serve"]}
    container = images.Container(tmp_path, configuration, tmp_path / "log", {}, B="2")
    container.run(["check"])
    assert ran[0][-8:] == ["-u", "nova", "--", "env", "-i", "A=1", "B=2", "check"]
