import pytest

from scheduler.operators.audit.command import rows, status, summary
from scheduler.operators.audit.findings import Finding, Gap, Kind, Report

FINDING = Finding(Kind.NO_INSTANCE, "i", "compute-1", "Nothing has this UUID.", "Delete it.")
GAP = Gap("cell cell1", "no answer")


@pytest.mark.parametrize(
    ("report", "expected"),
    [
        pytest.param(Report(), 0, id="nothing"),
        pytest.param(Report([FINDING]), 1, id="a finding"),
        pytest.param(Report([FINDING], left_out=1), 1, id="findings beyond the limit"),
        pytest.param(Report(gaps=[GAP]), 2, id="a gap"),
        pytest.param(Report([FINDING], gaps=[GAP]), 3, id="both"),
    ],
)
def test_exit_status(report, expected):
    assert status(report) == expected


def test_a_row_tells_what_is_wrong_and_what_to_do():
    assert list(rows(Report([FINDING]))) == [
        ("allocation-without-instance", "i", "compute-1", "Nothing has this UUID.", "Delete it.")
    ]


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
