"""Pages are files of their owner, and a report replaces the one before."""

import fcntl
import os
import stat

import pytest

from scheduler.pages import files

OURS = '<!DOCTYPE html><meta name="generator" content="Berth">'
OLD, NEW = "decision-0123456789abcdef.html", "decision-fedcba9876543210.html"


@pytest.mark.parametrize("before", [None, 0o644, 0o600], ids=["new", "readable by others", "own"])
def test_only_its_owner_can_read_the_file(tmp_path, before):
    path = tmp_path / "page.html"
    if before is not None:
        path.write_text("old")
        path.chmod(before)
    files.write(path, "<p>é</p>")
    assert path.read_text(encoding="utf-8") == "<p>é</p>"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_who_has_opened_the_old_file_does_not_see_the_new_one(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with path.open() as opened:
        files.write(path, "<p></p>")
        assert opened.read() == "old"


def test_a_link_or_device_is_not_written_to(tmp_path):
    target, link = tmp_path / "target", tmp_path / "page.html"
    target.write_text("precious")
    link.symlink_to(target)
    for path in (link, "/dev/null"):
        with pytest.raises(FileExistsError, match=r"(?i)no regular file"):
            files.write(path, "<p></p>")
    assert target.read_text() == "precious"
    assert link.is_symlink()


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        files.write(path, "\ud800")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


# -- a report --------------------------------------------------------------------------------------------


def names(directory):
    return sorted(each.name for each in directory.iterdir())


def test_a_report_is_its_owners_alone(tmp_path):
    directory = tmp_path / "new" / "report"
    assert files.replace_report(directory, lambda: OURS, [(OLD, OURS)]) == 2
    assert names(directory) == [OLD, "index.html"]
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in directory.iterdir()} == {0o600}


def test_stale_pages_go_and_files_of_others_stay(tmp_path):
    files.replace_report(tmp_path, lambda: OURS, [(OLD, OURS), ("hosts-0001.html", OURS)])
    kept = ["notes.txt", "decision-1.html", "hosts-0002.html"]
    for name in kept:
        (tmp_path / name).write_text("of another program")
    (tmp_path / f".{OLD}.abcd1234").write_text("of a run that was killed")
    files.replace_report(tmp_path, lambda: OURS, [(NEW, OURS)])
    assert names(tmp_path) == sorted([*kept, NEW, "index.html"])


def test_at_each_moment_the_index_names_pages_that_are_there(tmp_path):
    """What a reader could see each time a page is about to be written, and when the index is made."""
    files.replace_report(tmp_path, lambda: f"{OURS}{OLD}", [(OLD, OURS)])
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

    files.replace_report(tmp_path, index, pages())
    look()
    assert seen == [[]] * 4
    assert OLD not in names(tmp_path)


def test_a_run_that_fails_leaves_the_report_before(tmp_path):
    files.replace_report(tmp_path, lambda: OURS, [(OLD, OURS)])

    def pages():
        yield NEW, OURS
        raise OSError("no space")

    with pytest.raises(OSError, match="no space"):
        files.replace_report(tmp_path, lambda: "new", pages())
    assert (tmp_path / "index.html").read_text() == OURS
    assert OLD in names(tmp_path)


def test_a_directory_of_something_else_is_left_alone(tmp_path):
    (tmp_path / "index.html").write_text("<h1>Our web site</h1>")
    with pytest.raises(FileExistsError, match="index of something else"):
        files.replace_report(tmp_path, lambda: OURS, [(NEW, OURS)])
    assert names(tmp_path) == ["index.html"]


def test_two_reports_are_not_written_at_once(tmp_path):
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        with pytest.raises(BlockingIOError, match="Another report"):
            files.replace_report(tmp_path, lambda: OURS, [(NEW, OURS)])
    finally:
        os.close(descriptor)
    assert names(tmp_path) == []
