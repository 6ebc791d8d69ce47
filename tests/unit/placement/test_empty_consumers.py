from scheduler.placement.empty_consumers import EmptyConsumers


def test_the_oldest_are_forgotten_first_and_others_when_they_are_discarded():
    known = EmptyConsumers(capacity=2)
    for uuid in "abc":
        known.add(uuid)
    assert [known.generation_of(uuid) for uuid in "abc"] == [None, 0, 0]
    known.discard("b")
    known.discard("never seen")
    assert known.generation_of("b") is None
