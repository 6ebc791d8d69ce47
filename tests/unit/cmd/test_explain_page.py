"""The server of one page."""

import stat
import threading
import urllib.error
import urllib.request

import pytest

from scheduler.cmd import explain_page


@pytest.fixture
def port():
    with explain_page.server(0, "<p>café</p>") as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def get(port, path="/", host=None, data=None):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data)
    if host:
        request.add_header("Host", host)
    return urllib.request.urlopen(request, timeout=10)


def test_the_page_is_served_and_may_load_nothing_else(port):
    with get(port) as answer:
        assert answer.read().decode() == "<p>café</p>"
        assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    ("options", "status"),
    [({"path": "/other"}, 404), ({"host": "evil.example"}, 421), ({"data": b"x"}, 404)],
    ids=["another path", "a name that leads here", "a write"],
)
def test_anything_else_is_refused(port, options, status):
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(port, **options)
    with caught.value as answer:
        assert answer.code == status


@pytest.mark.parametrize("before", [None, 0o644, 0o600], ids=["new", "readable by others", "own"])
def test_only_its_owner_can_read_the_file(tmp_path, before):
    path = tmp_path / "page.html"
    if before is not None:
        path.write_text("old")
        path.chmod(before)
    explain_page.write(str(path), "<p>é</p>")
    assert path.read_text(encoding="utf-8") == "<p>é</p>"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_who_has_opened_the_old_file_does_not_see_the_new_one(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with path.open() as opened:
        explain_page.write(str(path), "<p></p>")
        assert opened.read() == "old"


def test_a_link_or_device_is_not_written_to(tmp_path):
    target, link = tmp_path / "target", tmp_path / "page.html"
    target.write_text("precious")
    link.symlink_to(target)
    for path in (link, "/dev/null"):
        with pytest.raises(FileExistsError, match=r"(?i)no regular file"):
            explain_page.write(str(path), "<p></p>")
    assert target.read_text() == "precious"
    assert link.is_symlink()


def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises(UnicodeEncodeError):
        explain_page.write(str(path), "\ud800")
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]
