"""tools/berth package, tools/berth controller, tools/berth image and tools/berth cluster: what they compare, and what they write for the servers they start."""

from pathlib import Path

import pytest

from tools.rig import images, namespaces, packages
from tools.rig.haproxy import HaProxy
from tools.rig.namespaces import BRIDGE_ADDRESS, Network
from tools.scenarios import package
from tools.scenarios.steps import WIDTH, Transcript

BOTH = packages.Packages(Path("0.1.0/berth.deb"), Path("0.1.1/berth.deb"))
PASSED = "PASS: Installation and purging test.\nPASS: Installation, upgrade and purging tests.\n"


@pytest.mark.parametrize(
    ("judge", "output", "right", "text"),
    [
        ("lint", "", True, "no errors and no warnings"),
        ("lint", "W: berth-scheduler: no-manual-page [usr/bin/berth]\n", True, "W: no-manual-page"),
        ("lint", "W: b: one\nE: b: no-copyright-file\n", False, "E: no-copyright-file, W: one"),
        ("piuparts", f"1s DEBUG: begins\n{PASSED}2s INFO: ends\n", True, PASSED.strip()),
        # Without the earlier version in the archive it passes without an upgrade
        ("piuparts", "PASS: Installation and purging test.\n", False, "PASS: Installation and purging test."),
        ("piuparts", f"{PASSED}FAIL: left:\n  /opt/a\n\n3s", False, f"{PASSED}FAIL: left:\n  /opt/a"),
        ("piuparts", "no such chroot", False, "no such chroot"),
    ],
)
def test_the_judges_of_a_package_are_read(judge, output, right, text, monkeypatch, tmp_path):
    monkeypatch.setattr(package, "run_program", lambda *_, **__: output)
    act = {
        "lint": lambda: package.lint(BOTH),
        "piuparts": lambda: package.upgrade_and_purge("bookworm", tmp_path, BOTH, tmp_path / "log"),
    }
    assert act[judge]() == (right, text)


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


def test_a_transcript_runs_its_lines_where_it_is_told_to():
    show = Transcript(["env", "PLACE=machine", "bash", "-c"])
    show.run("echo $PLACE; echo; false")
    assert show.text == "$ echo $PLACE; echo; false\nmachine\n"


def test_what_is_said_between_commands_is_wrapped():
    show = Transcript()
    show.step("1 Begin")
    show.say("word " * 40)
    title, *said = show.text.strip().splitlines()
    assert title == "== 1 Begin"
    assert len(said) == 2
    assert all(line.startswith("# ") and len(line) <= WIDTH for line in said)


def test_a_program_runs_in_a_container_as_the_user_of_its_image(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setattr(images, "run_program", lambda words, **_: ran.append(words))
    monkeypatch.setattr(images.Container, "init", lambda _: 7)
    configuration = {"User": "nova", "Env": ["A=1"], "Cmd": ["serve"]}
    container = images.Container(tmp_path, configuration, tmp_path / "log", {}, B="2")
    container.run(["check"])
    assert ran[0][-8:] == ["-u", "nova", "--", "env", "-i", "A=1", "B=2", "check"]
