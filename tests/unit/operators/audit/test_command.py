import io

import pytest

from scheduler.operators.audit.command import rows, status, summary
from scheduler.operators.audit.findings import Finding, Gap, Kind, Report
from scheduler.operators.audit.fix import CHANGED, FREED
from scheduler.operators.command.app import NOT_RUN
from scheduler.operators.status.main import main

FINDING = Finding(Kind.NO_INSTANCE, "i", "compute-1", "Nothing has this UUID.", "Delete it.")
FIXED = Finding(Kind.NO_INSTANCE, "i", "compute-1", "Nothing has this UUID.", "Delete it.", FREED)
NOT_FIXED = Finding(Kind.NO_INSTANCE, "i", "compute-1", "Nothing has this UUID.", "Delete it.", CHANGED)
GAP = Gap("cell cell1", "no answer")


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(Report(), 0, id="nothing"),
        pytest.param(Report([FINDING]), 1, id="a finding"),
        pytest.param(Report(left_out=1), 1, id="findings beyond the limit"),
        pytest.param(Report(gaps=[GAP]), 2, id="a gap"),
        pytest.param(Report([FINDING], gaps=[GAP]), 3, id="both"),
        pytest.param(Report([FIXED]), 0, id="all fixed"),
        pytest.param(Report([FIXED, NOT_FIXED]), 1, id="one not fixed"),
    ],
)
def test_exit_status(report, expected):
    assert status(report) == expected


@pytest.mark.parametrize(("timeout", "grace"), [(1800, 1799), (60, 59), (0, 3599)], ids=str)
def test_claims_of_builds_that_are_waited_for_are_not_given_back(tmp_path, capsys, timeout, grace):
    path = tmp_path / "nova.conf"
    path.write_text(
        f"[DEFAULT]\nlong_rpc_timeout = {timeout}\n[api_database]\nconnection = sqlite://\n"
        "[placement]\nauth_type = none\n"
    )
    argv = ["--config-file", str(path), "audit", "--fix", "--grace"]
    errors = io.StringIO()
    assert main([*argv, str(grace)], stderr=errors) == NOT_RUN
    assert (
        f"--fix needs a --grace of {grace + 1} seconds or more" in errors.getvalue() + capsys.readouterr().err
    )


def test_a_row_tells_what_is_wrong_and_what_to_do():
    assert list(rows(Report([FINDING]))) == [
        ("allocation-without-instance", "i", "compute-1", "Nothing has this UUID.", "Delete it.")
    ]


def test_a_row_tells_what_was_fixed_and_what_is_left_to_do():
    assert [row[-1] for row in rows(Report([FIXED, NOT_FIXED]))] == [FREED, f"{CHANGED} Delete it."]


def test_what_was_not_compared_is_a_row():
    first, second = rows(Report(gaps=[GAP, Gap("consumers of allocations", "cell cell1: no answer", 7)]))
    assert first[:4] == ("not-compared", "cell cell1", "", "Could not be read: no answer")
    assert second[1] == "7 consumers of allocations"


def test_summary_tells_what_was_compared_and_what_is_not_shown():
    report = Report([FINDING], left_out=2, gaps=[GAP], counts={"provider trees": 3, "instances": 4})
    assert summary(report) == (
        "Compared 3 provider trees, 4 instances. Findings: 3 (2 of them not shown); not all could be compared."
    )
    assert summary(Report()) == "Compared nothing. Findings: 0."
