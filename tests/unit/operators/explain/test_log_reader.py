"""Decisions are read back from the files of all schedulers, the latest first."""

import json
import os

import pytest

from scheduler.decisions.decision_log import DecisionLog
from scheduler.decisions.document import decode, encode
from scheduler.operators.explain import log_reader
from scheduler.operators.explain.log_reader import DecisionLogReader
from tests.unit.decisions.test_memory import decisions as some_decisions

#: A line of an earlier release.
OLD = b'{"version": 1, "time": "1970-01-01T00:16:45.000+00:00", "request_id": "req-0", "instances": ["i0"]}'


@pytest.fixture(scope="module")
def decisions():
    """Three decisions; the second one failed, the third is of another project."""
    made = some_decisions(1, 99999, 1)
    for number, decision in enumerate(made):
        decision.project_id = "a" if number < 2 else "b"
    return [encode(decision) for decision in made]


@pytest.fixture
def directory(tmp_path, decisions):
    """The first two decisions in one file, then a line that was cut, and others that are none; the third in a later file."""
    for pid, lines in ((1, [*decisions[:2], decisions[0][:50], b"[]", OLD]), (2, decisions[2:])):
        file = DecisionLog(str(tmp_path), 1 << 20, 1, clock=lambda: 1000.0, pid=pid)
        for line in lines:
            file.write(line)
        file.close()
        path = next(path for path in tmp_path.iterdir() if f"-{pid}-1" in path.name)
        os.utime(path, (1001.0 + pid, 1001.0 + pid))
    return tmp_path


def test_a_decision_is_found_by_request_and_instance(directory):
    reader = DecisionLogReader(directory)
    for name in ("req-0", "i0"):
        found, file = reader.find([name])[name]
        assert decode(found).request_id == "req-0"
        assert "-1-1" in file
    assert reader.find(["req-9"]) == {}


@pytest.mark.parametrize("others", [0, log_reader.FEW], ids=["few", "many"])
def test_many_decisions_are_found_at_once(directory, others):
    names = ["req-0", "i2", *(f"req-of-none-{number}" for number in range(others))]
    found = DecisionLogReader(directory).find(names)
    assert {name: (decode(line).request_id, "-1-1" in file) for name, (line, file) in found.items()} == {
        "req-0": ("req-0", True),
        "i2": ("req-2", False),
    }


def test_the_latest_of_two_decisions_on_an_instance_is_found(directory, decisions):
    file = DecisionLog(str(directory), 1 << 20, 1, pid=3)
    again = json.loads(decisions[0]) | {"request_id": "req-again"}
    file.write(json.dumps(again).encode())
    file.close()
    assert DecisionLogReader(directory).find(["i0"])["i0"][0] == json.dumps(again).encode()


def test_the_latest_decision_counts_and_not_the_file_that_was_written_last(directory, decisions):
    """Another scheduler decided on the instance later, and has written nothing since."""
    file = DecisionLog(str(directory), 1 << 20, 1, clock=lambda: 1000.0, pid=3)
    again = json.loads(decisions[0]) | {"request_id": "req-again", "time": "1970-01-01T00:16:41.500+00:00"}
    file.write(json.dumps(again).encode())
    file.close()
    (path,) = directory.glob("*-3-1*")
    os.utime(path, (1001.6, 1001.6))
    assert DecisionLogReader(directory).find(["i0"])["i0"] == (json.dumps(again).encode(), path.name)


@pytest.mark.parametrize("milliseconds", [10_000.0, 1.0], ids=["ended last", "explained late"])
def test_a_line_that_is_written_late_does_not_hide_those_before_it(milliseconds, tmp_path, decisions):
    """The first request began before the time that is asked for, and its line comes last."""
    file = DecisionLog(str(tmp_path), 1 << 20, 1, clock=lambda: 1000.0)
    first = json.loads(decisions[0])
    first["milliseconds"]["total"] = milliseconds
    for line in (*decisions[1:], json.dumps(first).encode()):
        file.write(line)
    file.close()
    found = DecisionLogReader(tmp_path).entries(since=1000.5)
    assert [one["request_id"] for one in found] == ["req-2", "req-1"]
    seen = DecisionLogReader(tmp_path).decisions(since=1000.5)
    assert sorted(one.request_id for one in seen) == ["req-1", "req-2"]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["i2", "i1", "i0"]),
        ({"failed": True}, ["i1"]),
        ({"since": 1000.5}, ["i2", "i1"]),
        ({"since": 1002.5}, ["i2"][:0]),
        ({"project": "a"}, ["i1", "i0"]),
        ({"at_most": 2}, ["i2", "i1"]),
    ],
    ids=str,
)
def test_a_list_has_the_latest_first(directory, wanted, found):
    assert [one["instances"][0] for one in DecisionLogReader(directory).entries(**wanted)] == found


def test_a_directory_that_is_missing_is_an_error(tmp_path):
    with pytest.raises(OSError, match="not a directory"):
        DecisionLogReader(tmp_path / "missing").find(["i0"])


def test_a_file_that_is_removed_meanwhile_is_left_out(directory):
    """A link that leads nowhere stands for a file that was listed and is gone when it is looked at."""
    (directory / "decisions-gone.jsonl").symlink_to(directory / "nowhere")
    reader = DecisionLogReader(directory)
    assert [one["request_id"] for one in reader.entries()] == ["req-2", "req-1", "req-0"]
    assert reader.find(["req-9"]) == {}
