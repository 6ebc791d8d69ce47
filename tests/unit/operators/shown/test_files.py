"""Pages are files of their owner."""

import stat

import pytest

from scheduler.operators.shown import files


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


def test_the_file_has_its_mode_from_the_begin(tmp_path):
    files.write(tmp_path / "berth.prom", "x 1\n", mode=0o644)
    assert stat.S_IMODE((tmp_path / "berth.prom").stat().st_mode) == 0o644


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
