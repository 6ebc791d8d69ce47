import pytest

from scheduler.stream.catch_up import CatchUp


def test_what_was_written_before_a_subscription_is_read_once_the_marker_comes_back():
    reading, seen = CatchUp(), []
    for subscription in ([0], [1, 2]):
        reading.begin(subscription[-1])
        for counter in subscription:
            seen.append((reading.is_replaying, reading.once))
            reading.advance(counter)
    assert seen == [(True, False), (True, True), (True, True)]
    assert (reading.is_replaying, reading.in_step, reading.wait(0.0)) == (False, True, True)


@pytest.mark.parametrize(("counter", "expected"), [(4, False), (5, True), (6, True), (7, False)], ids=str)
def test_an_own_record_is_new_if_it_was_published_here_and_not_read_yet(counter, expected):
    reading = CatchUp()
    reading.advance(4)
    assert reading.is_new(counter, published=7) is expected
