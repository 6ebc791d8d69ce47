"""A report replaces the one before, and leaves other files alone."""

import fcntl
import os
import stat

import pytest

from scheduler.operators.report import directory

OURS = '<!DOCTYPE html><meta name="generator" content="Berth">'
OLD, NEW = "decision-0123456789abcdef.html", "decision-fedcba9876543210.html"


def names(folder):
    return sorted(each.name for each in folder.iterdir())


def test_a_report_is_its_owners_alone(tmp_path):
    folder = tmp_path / "new" / "report"
    assert directory.replace(folder, lambda: OURS, [(OLD, OURS)]) == 2
    assert names(folder) == [OLD, "index.html"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}


def test_stale_pages_go_and_files_of_others_stay(tmp_path):
    directory.replace(tmp_path, lambda: OURS, [(OLD, OURS), ("hosts-0001.html", OURS)])
    kept = ["notes.txt", "decision-1.html", "hosts-0002.html"]
    for name in kept:
        (tmp_path / name).write_text("of another program")
    (tmp_path / f".{OLD}.abcd1234").write_text("of a run that was killed")
    directory.replace(tmp_path, lambda: OURS, [(NEW, OURS)])
    assert names(tmp_path) == sorted([*kept, NEW, "index.html"])


def test_at_each_moment_the_index_names_pages_that_are_there(tmp_path):
    """What a reader could see each time a page is about to be written, and when the index is made."""
    directory.replace(tmp_path, lambda: f"{OURS}{OLD}", [(OLD, OURS)])
    seen = []

    def look():
        index = (tmp_path / "index.html").read_text()
        seen.append([name for name in (OLD, NEW) if name in index and not (tmp_path / name).exists()])

    def pages():
        for name in (NEW, "hosts-0001.html"):
            look()
            yield name, OURS

    def index():
        look()
        return f"{OURS}{NEW}"

    directory.replace(tmp_path, index, pages())
    look()
    assert seen == [[]] * 4
    assert OLD not in names(tmp_path)


def test_a_run_that_fails_leaves_the_report_before(tmp_path):
    directory.replace(tmp_path, lambda: OURS, [(OLD, OURS)])

    def pages():
        yield NEW, OURS
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        directory.replace(tmp_path, lambda: "new", pages())
    assert (tmp_path / "index.html").read_text() == OURS
    assert OLD in names(tmp_path)


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "index.html").write_text("<h1>Our web site</h1>")
    with pytest.raises(FileExistsError, match="index of something else"):
        directory.replace(tmp_path, lambda: OURS, [(NEW, OURS)])
    assert names(tmp_path) == ["index.html"]


def test_two_reports_are_not_written_at_once(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match="Another report"):
            directory.replace(tmp_path, lambda: OURS, [(NEW, OURS)])
    finally:
        os.close(descriptor)
    assert names(tmp_path) == []


@pytest.mark.parametrize("name", ["req-1", "../../etc/passwd", "", "x" * 5000], ids=len)
def test_the_file_of_a_decision_depends_on_its_name_alone(tmp_path, name):
    file = directory.decision_file(name)
    assert file == directory.decision_file(name) != directory.decision_file(f"{name}2")
    directory.replace(tmp_path, lambda: OURS, [(file, OURS), (directory.hosts_file(12345), OURS)])
    assert names(tmp_path) == [file, "hosts-12345.html", "index.html"]
    directory.replace(tmp_path, lambda: OURS, [])
    assert names(tmp_path) == ["index.html"]
