"""Times of documents."""

import pytest

from scheduler.decisions.document import seconds_of, time_text


@pytest.mark.parametrize(
    "text", ["1970-01-01T00:01:00", "1970-01-01T00:01:00+00:00", "1970-01-01T01:01:00+01:00"]
)
def test_times_without_a_zone_are_utc(text):
    assert seconds_of(text) == 60.0


def test_a_time_is_written_to_the_millisecond():
    assert time_text(60.0014) == "1970-01-01T00:01:00.001+00:00"
    assert seconds_of(time_text(1e9 + 0.25)) == 1e9 + 0.25
