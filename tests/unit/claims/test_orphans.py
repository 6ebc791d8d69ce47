from scheduler.claims.claim import EmptyConsumers


def test_bounded(monkeypatch):
    monkeypatch.setattr(EmptyConsumers, "CAPACITY", 2)
    orphans = EmptyConsumers()
    for uuid in "abc":
        orphans.add(uuid)
    assert [orphans.generation(uuid) for uuid in "abc"] == [None, 0, 0]
    orphans.discard("b")
    orphans.discard("never seen")
    assert orphans.generation("b") is None
