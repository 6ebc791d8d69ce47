"""What berth-status remove takes from the disk; the broker has an integration test."""

import io
import json

import orjson
import pytest

from scheduler.operators.command import app
from scheduler.operators.status import main as status
from tests.support.deployment import write_configuration


@pytest.fixture
def remove(tmp_path):
    def remove(*argv, url="fake://"):
        config = write_configuration(tmp_path, url, "", f"[berth]\ndecision_log = {tmp_path}/decisions\n")
        output, errors = io.StringIO(), io.StringIO()
        argv = ["remove", *argv, "--config-file", str(config), "-f", "json"]
        code = status.main(argv, stdout=output, stderr=errors)
        return code, json.loads(output.getvalue() or "[]"), errors.getvalue()

    return remove


@pytest.fixture
def spool(tmp_path):
    directory = tmp_path / "berth-spool-ctl"
    directory.mkdir()
    (tmp_path / "berth-spool-other").mkdir()
    return directory


def test_an_empty_spool_and_abandoned_temporary_ones_are_removed(remove, spool, tmp_path):
    (tmp_path / "berth-spool-+abc").mkdir()
    (tmp_path / "decisions").mkdir()
    code, rows, _ = remove("--dry-run")
    assert code == 1
    assert [(row["Kind"], row["Result"].partition(":")[0]) for row in rows] == [
        ("spool", "would be removed"),
        ("temporary spool", "would be removed"),
        ("decision log", "kept"),
    ]
    assert spool.exists()
    remove()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"nova.conf", "berth-spool-other", "decisions"}
    (tmp_path / "decisions").rmdir()
    assert remove()[:2] == (0, [])


def test_a_spool_with_what_is_to_be_released_is_kept(remove, spool):
    line = {"v": 1, "consumer": "c1", "lost": {"p": {"resources": {"VCPU": 1}}}}
    (spool / "1-0.jsonl").write_bytes(orjson.dumps(line) + b"\n")
    code, rows, _ = remove()
    assert code == 1
    assert rows[0]["Result"].startswith("kept: 1 instances in it may hold allocations")
    assert list(spool.iterdir())


def test_a_spool_with_files_of_others_is_kept(remove, spool):
    (spool / "notes.txt").write_text("x")
    assert "it has other files, such as notes.txt" in remove()[1][0]["Result"]


def test_without_an_answer_of_the_broker_nothing_is_removed(remove, spool):
    code, rows, errors = remove(url="rabbit://u:p@127.0.0.1:1/v")
    assert (code, rows) == (app.NOT_RUN, [])
    assert "The broker does not answer" in errors
    assert spool.exists()
