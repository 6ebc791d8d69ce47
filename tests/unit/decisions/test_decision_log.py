"""Decisions on disk: one JSON object a line, in files that are ended by size and age."""

from contextlib import ExitStack, closing
import json
import os
import time

import pytest

from scheduler.decisions.decision_log import DAY, DecisionLog
from scheduler.decisions.document import encode
from scheduler.request.scheduling_request import SchedulingRequest
from tests.support.clock import Clock
from tests.support.options import make_conf
from tests.unit.decisions.decisions import decide
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import host_with_candidate


@pytest.fixture
def open_file(tmp_path):
    """Makes logs, not started, whose files are closed in the end."""
    with ExitStack() as stack:
        yield lambda directory=tmp_path, size=1000, clock=time.time: stack.enter_context(
            closing(DecisionLog(str(directory), size, 1, clock, pid=7))
        )


def make_document(memory_mb=64):
    conf = make_conf(
        enabled_filters=["RamFilter"], available_filters=["nova.scheduler.filters.ram_filter.RamFilter"]
    )
    spec = make_spec(sizes={"memory_mb": memory_mb}, instance_uuid="i")
    hosts = [host_with_candidate(f"h{number}").ram(1024 * number, 8192) for number in (1, 2)]
    return encode(decide(conf, hosts, SchedulingRequest.of(spec, ["i"], with_alternates=True)).decision)


def lines(directory):
    return [
        json.loads(line) for path in sorted(directory.iterdir()) for line in path.read_text().splitlines()
    ]


def test_a_decision_is_written_as_it_is_documented(tmp_path):
    log = DecisionLog(str(tmp_path), 1 << 20, 1)
    log.start()
    log.add(make_document)
    log.add(lambda: make_document(memory_mb=2000))
    log.stop(10)
    served, short = lines(tmp_path)
    assert served["version"] == 4
    assert served["result"] == "scheduled"
    assert served["flavor"]["memory_mb"] == 64
    assert served["spec"]["nova_object.data"]["flavor"]["nova_object.data"]["memory_mb"] == 64
    assert served["chosen"] == [
        {
            "instance": "i",
            "host": {"host": "h2", "node": "h2"},
            "alternates": [{"host": "h1", "node": "h1"}],
        }
    ]
    assert [served["hosts"]["host"][number] for number in served["best"]["host"]] == ["h2", "h1"]
    assert [(one["filter"], one["start"], one["end"]) for one in short["filters"]] == [("RamFilter", 2, 1)]
    rejected = short["hosts"]["outcome"].index("rejected")
    assert (short["hosts"]["host"][rejected], short["hosts"]["step"][rejected]) == ("h1", 0)
    assert [(one["hosts"], one["names"]) for one in short["filters"][0]["out"]] == [(1, ["h1"])]


def test_a_full_file_is_followed_by_the_next(tmp_path, open_file):
    file = open_file(size=10)
    for line in (b"12345678", b"1", b"2"):
        file.write(line)
    assert [path.read_bytes() for path in sorted(tmp_path.iterdir())] == [b"12345678\n", b"1\n2\n"]


def test_old_files_are_ended_and_removed(tmp_path, open_file):
    clock = Clock()
    file = open_file(clock=clock)
    file.write(b"1")
    (old,) = tmp_path.iterdir()
    os.utime(old, (clock.now, clock.now))
    clock.now += DAY + 1
    file.write(b"2")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"2\n"]


def test_other_files_of_the_directory_are_left_alone(tmp_path, open_file):
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    os.utime(other, (0, 0))
    open_file().write(b"1")
    assert other.exists()


def test_after_a_failed_write_the_log_goes_on(tmp_path, open_file):
    directory = tmp_path / "later"
    file = open_file(directory)
    with pytest.raises(OSError, match="later"):
        file.write(b"1")
    directory.mkdir()
    file.write(b"2")
    assert [path.read_bytes() for path in directory.iterdir()] == [b"2\n"]


def test_a_full_disk_is_not_filled_with_files_without_a_line(tmp_path, open_file):
    for number in (1, 2):
        (tmp_path / f"decisions-19700101T000000Z-7-{number}.jsonl").symlink_to("/dev/full")
    file = open_file(clock=lambda: 0.0)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            file.write(b"1")
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_that_cannot_be_removed_does_not_end_the_log(tmp_path, open_file, caplog):
    """A directory stands for the file of another user: neither can be unlinked."""
    others = tmp_path / "decisions-old.jsonl"
    others.mkdir()
    os.utime(others, (0, 0))
    open_file().write(b"1")
    assert [path.read_bytes() for path in tmp_path.iterdir() if path != others] == [b"1\n"]
    assert "Cannot remove an old file of the decision log" in caplog.text


def test_after_its_file_was_removed_the_log_goes_on_in_another(tmp_path, open_file):
    file = open_file()
    file.write(b"1")
    for path in tmp_path.iterdir():
        path.unlink()
    file.write(b"2")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"2\n"]


def test_a_directory_that_cannot_be_written_is_reported(tmp_path, caplog):
    log = DecisionLog(str(tmp_path / "none"), 1000, 1)
    log.start()
    log.add(make_document)
    log.stop(10)
    assert "Cannot write the decision log" in caplog.text
