import pytest

from scheduler.hosts.pending import PendingPlacements
from scheduler.stream.membership import BEAT_INTERVAL, Member
from scheduler.stream.presence import SMOOTHING, Presence
from scheduler.stream.shared_decisions import LocalState
from tests.builders import make_host, make_table


@pytest.fixture
def presence():
    table = make_table([make_host("h1").ram(100, 400)])
    return Presence(Member("s1", "a"), LocalState(PendingPlacements(), lambda: table, None))


def test_the_rate_is_smoothed_over_the_beats(presence):
    placed = round(10 * BEAT_INTERVAL)
    for _ in range(placed):
        presence.count_placement()
    rates = [presence.beat().rate for _ in range(2)]
    first = SMOOTHING * placed / BEAT_INTERVAL
    assert rates == pytest.approx([first, first * (1 - SMOOTHING)], abs=0.001)


def test_what_is_told_between_beats_measures_nothing(presence):
    presence.count_placement()
    presence.take_calls("berth.a.0")
    told = presence.describe()
    assert (told.host, told.topic, told.rate) == ("a", "berth.a.0", 0.0)
    assert presence.beat().rate > 0


def test_a_scheduler_that_serves_no_partition_tells_of_no_room(presence):
    assert presence.describe().total_mb == 0
