from scheduler.rpc.postponements import MOST_POSTPONED, Postponements


def test_a_call_is_returned_a_bounded_number_of_times():
    postponements = Postponements()
    for _ in range(MOST_POSTPONED):
        assert postponements.may_postpone("m1")
        postponements.note("m1")
    assert (postponements.may_postpone("m1"), postponements.may_postpone("m2")) == (False, True)


def test_a_call_without_an_identity_is_not_returned_since_it_could_not_be_counted():
    assert not Postponements().may_postpone("")
