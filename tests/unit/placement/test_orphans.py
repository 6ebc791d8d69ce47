from scheduler.placement.orphans import Orphans


def test_bounded(monkeypatch):
    monkeypatch.setattr(Orphans, "CAPACITY", 2)
    orphans = Orphans()
    for uuid in "abc":
        orphans.add(uuid)
    assert [orphans.generation(uuid) for uuid in "abc"] == [None, 0, 0]
    orphans.discard("b")
    orphans.discard("never seen")
    assert orphans.generation("b") is None
