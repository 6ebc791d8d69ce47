"""Counts over decisions: by cause, and over time."""

import pytest

from scheduler.operators.report import overview
from tests.unit.operators.report.entries import GPU, LENGTH, RAM, SINCE, entry

UNTIL = SINCE + LENGTH
PART = LENGTH / overview.PARTS


def summarize(*entries, since=SINCE):
    return overview.summarize(entries, since, UNTIL)


def test_failures_are_counted_by_cause_the_most_frequent_first():
    later = RAM | {"words": "RamFilter rejected most"}
    found = summarize(entry(1, cause=GPU), entry(2, cause=RAM), entry(3, cause=later), entry(4))
    assert (found.decisions, found.failed, found.milliseconds) == (4, 3, 10.0)
    assert [(one.code, one.subject, one.count, one.words) for one in found.causes] == [
        ("resources", "RamFilter", 2, "RamFilter rejected most"),
        ("trait", "GPU", 1, GPU["words"]),
    ]
    assert [one["request_id"] for one in found.causes[0].latest] == ["req-3", "req-2"]


@pytest.mark.parametrize(
    "changes",
    [{"error": "PlacementUnavailable"}, {"error": None, "cause": None}],
    ids=["an outage", "of a scheduler of an earlier release"],
)
def test_failures_without_a_cause_are_counted_by_their_error(changes):
    (cause,) = summarize(entry(1, hosts=(), summary="no answer", **changes)).causes
    assert (cause.code, cause.subject, cause.words) == (overview.ERROR, changes["error"] or "", "no answer")


@pytest.mark.parametrize(
    ("second", "part"),
    [(0, 0), (PART - 1, 0), (PART, 1), (LENGTH - 1, 47), (LENGTH, 47), (LENGTH + 9, 47), (-5, 0)],
)
def test_requests_are_counted_over_time(second, part):
    found = summarize(entry(second, cause=RAM))
    expected = [int(number == part) for number in range(overview.PARTS)]
    assert (
        list(found.over_time) == list(found.failed_over_time) == list(found.causes[0].over_time) == expected
    )


def test_without_a_begin_the_time_begins_with_the_first_decision():
    found = summarize(entry(1000), since=0.0)
    assert (found.since, found.oldest) == (SINCE + 1000, SINCE + 1000)
    assert not found.is_cut


@pytest.mark.parametrize(("first", "is_cut"), [(100, False), (LENGTH / 2, True)])
def test_decisions_that_are_no_longer_kept_are_noticed(first, is_cut):
    assert summarize(entry(first), entry(LENGTH - 1)).is_cut is is_cut


def test_nothing_is_a_report_too():
    found = summarize()
    assert (found.decisions, found.oldest, found.milliseconds, found.linked) == (0, None, 0.0, [])


def test_the_number_of_pages_is_bounded():
    causes = [RAM | {"subject": str(number)} for number in range(overview.MOST_CAUSES + 5)]
    found = summarize(*(entry(number, cause=cause) for cause in causes for number in range(20)))
    assert (len(found.causes), found.more_causes) == (overview.MOST_CAUSES, 5)
    assert len(found.causes[0].latest) == overview.NAMED
    assert len(found.latest) == overview.LISTED
    assert len(summarize(*(entry(number) for number in range(999))).linked) == overview.LISTED


def test_a_decision_without_a_request_id_is_found_by_its_instance():
    assert overview.name_of(entry(1, request_id="")) == "i1"


def test_the_flavor_that_is_asked_for_most_comes_first():
    asked = [entry(number, flavor=name) for number, name in enumerate(["a", "b", "b", None, "c"])]
    assert overview.flavors_by_frequency(asked) == ["b", "a", "c"]
