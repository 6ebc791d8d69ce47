import io
import json
from types import SimpleNamespace

import pytest
import sqlalchemy as sa

from scheduler.nova_db import schema
from scheduler.nova_db.cells import CELL0
from scheduler.operators import programs
from scheduler.operators.upgrade_check import CUT, Level, cut_answers
from tests.support.placement import Placement, make_node
from tests.unit.cmd.test_check_config import NOTHING

CONF = """\
[DEFAULT]
transport_url = rabbit://u:secret@127.0.0.1:1/
state_path = /tmp
[api_database]
connection = {api}
[database]
connection = {cell}
[placement]
auth_type = admin_token
endpoint = http://127.0.0.1:1
token = admin
[scheduler]
workers = 1
"""


@pytest.fixture
def urls(tmp_path):
    return {name: f"sqlite:///{tmp_path}/{name}.db" for name in ("api", "cell")}


@pytest.fixture
def databases(urls):
    """Databases with a cell of one compute that is not mapped and old, and of one without a service."""
    api, cell = (sa.create_engine(urls[name]) for name in ("api", "cell"))
    schema.API.create_all(api)
    schema.CELL.create_all(cell)
    with api.begin() as connection:
        for uuid, name in ((CELL0, "cell0"), ("c1", "cell1")):
            values = {
                "uuid": uuid,
                "name": name,
                "database_connection": urls["cell"],
                "disabled": name != "cell0",
            }
            connection.execute(sa.insert(schema.cell_mappings).values(values))
    with cell.begin() as connection:
        values = {"host": "cmp-1", "binary": "nova-compute", "version": 61, "deleted": 0}
        connection.execute(sa.insert(schema.services).values(values))
        for host in ("cmp-1", "cmp-2"):
            connection.execute(sa.insert(schema.compute_nodes).values(host=host, deleted=0))
    yield api
    api.dispose()
    cell.dispose()


@pytest.fixture
def check(tmp_path, urls):
    """A function from more options to exit status, and the rows of a check by check; the broker is away."""

    def check(more=""):
        path = tmp_path / "nova.conf"
        path.write_text(CONF.format(**urls) + more)
        output = io.StringIO()
        argv = ["--config-file", str(path), "upgrade", "check", "--format", "json"]
        code = programs.status(argv, stdout=output, stderr=io.StringIO())
        rows = json.loads(output.getvalue())
        assert "secret" not in output.getvalue()
        return code, {row["Check"]: row for row in rows}

    return check


def test_everything_that_is_away_is_a_failure_that_says_what_to_do(check):
    code, rows = check()
    assert code == 2
    failed = {name for name, row in rows.items() if row["Result"] == "Failure"}
    assert failed == {"API database", "Placement", "Message broker 127.0.0.1:1"}
    assert all(rows[name]["Next step"] for name in failed)


@pytest.mark.parametrize(
    ("name", "detail", "step"),
    [
        ("Cells", "cell1 (c1) is disabled", "update_cell --cell_uuid c1 --enable"),
        ("Host mappings", "cmp-1", "discover_hosts"),
        ("Compute services", "1 host without a service record: cmp-2", "Restart nova-compute"),
        ("Versions", "nova-compute on cmp-1", "Upgrade them"),
    ],
)
def test_what_the_databases_lack_is_a_warning(databases, check, name, detail, step):
    row = check()[1][name]
    assert row["Result"] == "Warning"
    assert detail in row["Detail"]
    assert step in row["Next step"]


def test_a_known_schema_is_a_success_and_a_missing_column_a_failure(databases, check):
    assert check()[1]["API database"]["Result"] == "Success"
    with databases.begin() as connection:
        connection.execute(sa.text("ALTER TABLE host_mappings RENAME COLUMN host TO other"))
        connection.execute(sa.text("ALTER TABLE aggregates RENAME TO others"))
    row = check()[1]["API database"]
    assert row["Result"] == "Failure"


@pytest.mark.parametrize(
    ("more", "name", "result", "detail"),
    [
        ("[filter_scheduler]\nenabled_filters=Nope\n", "Filters", "Failure", "Nope could not be found"),
        ("[filter_scheduler]\nweight_classes=a.b\n", "Weighers", "Failure", "a.b"),
        ("[berth]\ncell_timout=3\n", "Options", "Warning", "did you mean cell_timeout?"),
        ("[filter_scheduler]\nenabled_filter=X\n", "Options", "Warning", "did you mean enabled_filters?"),
    ],
    ids=["filter", "weigher", "option", "option of nova"],
)
def test_rules_and_options_that_cannot_be_used_are_named(check, more, name, result, detail):
    row = check(more)[1][name]
    assert row["Result"] == result
    assert detail in row["Detail"]


@pytest.mark.parametrize("bound", [None, 3, 2], ids=str)
def test_answers_that_placement_cuts_are_a_warning_with_both_numbers(bound):
    placement = Placement(*(make_node(name) for name in "abc"), make_node("full", used={"MEMORY_MB": 4096}))
    placement.max_candidates = bound
    found = list(cut_answers(lambda path: SimpleNamespace(content=placement.get(path, "1.36").body)))
    if bound == 2:
        (row,) = found
        assert (row.state, row.check) == (Level.WARNING, CUT)
        assert row.detail == "One response has 2 of 3 compute nodes with free memory"
        assert "max_allocation_candidates in Placement's configuration to 3 or more" in row.next_step
    else:
        assert found == []


def test_answers_that_cannot_be_read_are_a_warning():
    (row,) = cut_answers(lambda _path: SimpleNamespace(content=b"<html>"))
    assert (row.state, row.check) == (Level.WARNING, CUT)


def test_where_the_log_goes_is_a_row(check, tmp_path):
    row = check()[1]["Log"]
    assert (row["Result"], row["Detail"]) == ("Success", "Lines of INFO and above go to standard output")
    (tmp_path / "logging.conf").write_text(NOTHING)
    row = check(f"[DEFAULT]\nlog_config_append = {tmp_path}/logging.conf\n")[1]["Log"]
    assert row["Result"] == "Warning"
    assert row["Detail"].endswith("all lines of the log are lost")
    row = check("[DEFAULT]\nlog_config_append = /no/such\n")[1]["Log"]
    assert (row["Result"], row["Detail"]) == (
        "Failure",
        "[DEFAULT]/log_config_append: /no/such cannot be read",
    )


@pytest.mark.parametrize(
    ("more", "detail"),
    [
        (
            "[DEFAULT]\ntransport_url = rabit://u:secret@127.0.0.1/\n",
            "[DEFAULT]/transport_url cannot be used",
        ),
        (
            "[DEFAULT]\ntransport_url = rabbit://u:se/cret@127.0.0.1/\n",
            "[DEFAULT]/transport_url cannot be read",
        ),
        (
            "[oslo_messaging_rabbit]\nssl = true\nssl_version = odd\n",
            "[oslo_messaging_rabbit] cannot be used: Invalid SSL version : odd",
        ),
    ],
    ids=["driver", "password", "version of TLS"],
)
def test_an_option_of_the_broker_that_cannot_be_used_is_named_alone(check, more, detail):
    row = check(more)[1]["Message broker"]
    assert row["Result"] == "Failure"
    assert row["Detail"].startswith(detail)
    assert "ssl_version" not in row["Detail"] or "transport_url" not in row["Detail"]


def test_files_and_directories_that_the_daemon_opens_are_named(check):
    row = check("[placement]\nkeyfile = /no/such\n")[1]["Options"]
    assert (row["Result"], row["Next step"]) == ("Failure", "Correct nova.conf, or mount the file")
    assert row["Detail"].startswith("[placement]/keyfile: cannot open /no/such: No such file or directory")


def test_a_web_server_is_no_placement(check, requests_mock):
    requests_mock.get("http://placement/", status_code=404, text="<html>")
    row = check("[placement]\nendpoint = http://placement\n")[1]["Placement"]
    assert row["Result"] == "Failure"
    assert row["Detail"] == "http://placement/: HTTP 404, which is not a response of Placement"
