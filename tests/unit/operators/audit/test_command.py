import pytest

from scheduler.operators.audit.command import shown, summary
from scheduler.operators.audit.values import Audited, AuditFinding, Kind

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
