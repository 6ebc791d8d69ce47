import io
import json

import pytest

from scheduler.operators import programs
from scheduler.operators.audit import command as audit
from scheduler.operators.audit.command import shown, summary
from scheduler.operators.audit.values import Audited, AuditFinding, Kind, finding

UUIDS = ["ece10b1c-f3f4-4d8c-ad60-09ab4ccf7979", "afb51f72-7182-4ce5-8c8e-e5524baf970f"]
DELETE = "openstack resource provider allocation delete"


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A function from more arguments to the lines of an audit that finds two allocations without instances."""
    path = tmp_path / "nova.conf"
    path.write_text("[api_database]\nconnection = sqlite://\n[placement]\nauth_type = none\n")
    found = [
        finding(Kind.NO_INSTANCE, uuid, "cmp-\x1b[31m1", f"It ({uuid}) has no instance.") for uuid in UUIDS
    ]
    monkeypatch.setattr(audit, "audit", lambda _conf, _args: Audited(found))

    def run(*argv):
        output = io.StringIO()
        argv = ["audit", "--config-file", str(path), *argv]
        assert programs.status(argv, stdout=output, stderr=io.StringIO()) == audit.FOUND
        return output.getvalue()

    return run


@pytest.mark.parametrize("width", ["0", "60", "150", "300"])
def test_uuids_stay_whole_and_commands_have_lines_of_their_own_below_the_table(run, width):
    lines = run("--max-width", width).splitlines()
    table = [line for line in lines if line.startswith(("|", "+"))]
    assert lines[:-1] == [*table, f"{DELETE} {UUIDS[0]}  # 1", f"{DELETE} {UUIDS[1]}  # 2"]
    assert not [line for line in table if "openstack" in line]
    assert ["".join(table).count(uuid) for uuid in UUIDS] == [2, 2]
    for number in ("1", "2"):
        assert f"command {number}" in " ".join(" ".join(table).replace("|", " ").split())


def test_a_table_is_as_wide_as_asked_for_where_no_word_is_longer(run):
    lines = run("--max-width", "190").splitlines()
    assert max(map(len, lines)) <= 190


def test_columns_that_are_not_shown_take_no_room(run):
    chosen = [word for name in ("Kind", "Subject", "Host") for word in ("-c", name)]
    table = [line for line in run("--max-width", "120", *chosen).splitlines() if line.startswith("|")]
    assert len(table) == 3


def test_commands_of_a_column_that_is_not_chosen_are_not_listed(run):
    assert "openstack" not in run("-c", "Kind", "-c", "Subject")
    assert f"{DELETE} {UUIDS[0]}  # 1" in run("-c", "Subject", "-c", "next_step").splitlines()


def test_programs_get_commands_in_their_row_and_no_control_characters(run):
    rows = json.loads(run("--format", "json"))
    assert [row["Next step"].rpartition(": ")[2] for row in rows] == [f"{DELETE} {uuid}" for uuid in UUIDS]
    assert rows[0]["Host"] == r"cmp-\x1b[31m1"


FINDING = AuditFinding(Kind.NO_INSTANCE, "i", "compute-1", "Nothing has this UUID.", "Delete it.")


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(Audited(), 0, id="nothing"),
        pytest.param(Audited([FINDING]), 1, id="a finding"),
        pytest.param(Audited([FINDING], left_out=1), 1, id="findings beyond the limit"),
    ],
)
def test_exit_status(report, expected):
    assert shown(report).status == expected


def test_a_row_tells_what_is_wrong_and_what_to_do():
    (table,) = shown(Audited([FINDING])).tables
    assert list(table.rows) == [
        ("allocation-without-instance", "i", "compute-1", "Nothing has this UUID.", "Delete it.")
    ]


def test_summary_tells_what_was_compared_and_what_is_not_shown():
    report = Audited([FINDING], left_out=2, counts={"provider trees": 3, "instances": 4})
    assert summary(report) == ("Compared 3 provider trees, 4 instances. Findings: 3 (2 of them not shown).")
    assert summary(Audited()) == "Compared nothing. Findings: 0."
