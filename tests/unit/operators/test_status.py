import io

import pytest

from scheduler.operators import app, programs
from tests.support.pages import Page

AWAY = """\
[api_database]
connection = sqlite:///{directory}/api.db
[placement]
auth_type = admin_token
endpoint = http://127.0.0.1:1
token = admin
"""


@pytest.fixture
def run(tmp_path):
    """A function from arguments to exit status, output and errors; Placement and the databases are away."""
    path = tmp_path / "nova.conf"
    path.write_text(AWAY.format(directory=tmp_path))

    def run(*argv):
        output, errors = io.StringIO(), io.StringIO()
        code = programs.status([*argv, "--config-file", str(path)], stdout=output, stderr=errors)
        return code, output.getvalue(), errors.getvalue()

    return run


def test_an_audit_without_a_database_says_what_it_could_not_read(run):
    code, output, errors = run("audit", "--format", "json")
    assert (code, output) == (app.NOT_RUN, "")
    assert "Cannot read the API database: " in errors


def test_the_default_output_is_a_table_of_bounded_width(run):
    code, output, _ = run("upgrade", "check")
    assert code == 2
    assert output.startswith("+--")
    assert max(map(len, output.splitlines())) < 220


def test_a_check_has_a_page(run, tmp_path):
    path = tmp_path / "page.html"
    assert run("upgrade", "check", "--html", str(path))[0] == 2
    page = Page(path.read_text())
    assert any(text.endswith(": upgrade check") for text in page.texts)
    assert any("API database" in row[1] for row in page.tables[0])


@pytest.mark.parametrize(
    "argv",
    [["audit", "--limit", "0"], ["audit", "--grace", "-1"], ["unknown"], ["audit", "unknown"]],
    ids=" ".join,
)
def test_a_wrong_argument_is_told_from_what_an_audit_finds(run, argv):
    assert run(*argv)[0] == app.NOT_RUN


@pytest.mark.parametrize(
    "text",
    ["", "[api_database]\nconnection = sqlite://\n[placement]\nauth_type = unknown\n"],
    ids=["empty", "no auth"],
)
def test_options_that_cannot_work_are_told_from_what_an_audit_finds(tmp_path, text):
    path = tmp_path / "nova.conf"
    path.write_text(text)
    errors = io.StringIO()
    assert programs.status(["--config-file", str(path), "audit"], stderr=errors) == app.NOT_RUN
    assert "[api_database]/connection is not set" in errors.getvalue() or "[placement]" in errors.getvalue()


def test_a_configuration_file_that_is_missing(tmp_path):
    argv = ["--config-file", str(tmp_path / "missing"), "audit"]
    assert programs.status(argv, stderr=io.StringIO()) == app.NOT_RUN


@pytest.mark.parametrize("argv", [["--help"], ["audit", "--help"], ["help", "audit"]], ids=" ".join)
def test_help_needs_no_configuration(argv, capsys):
    output = io.StringIO()
    assert programs.status(argv, stdout=output) == 0
    assert "usage: berth-status" in output.getvalue() + capsys.readouterr().out
