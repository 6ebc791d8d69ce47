import math

from scheduler.rpc.postponements import MOST_POSTPONED, Postponements


def test_a_call_is_returned_a_bounded_number_of_times():
    postponements = Postponements()
    for _ in range(MOST_POSTPONED):
        assert postponements.may_postpone("m1")
        postponements.note("m1", 0.0)
    assert (postponements.may_postpone("m1"), postponements.may_postpone("m2")) == (False, True)


def test_a_call_without_an_identity_is_not_returned_since_it_could_not_be_counted():
    assert not Postponements().may_postpone("")


def test_what_returned_calls_have_taken_before_is_known():
    postponements = Postponements()
    postponements.note("m1", 7.0)
    assert postponements.first_received("m1") == 7.0
    assert postponements.first_received("m2") == math.inf
