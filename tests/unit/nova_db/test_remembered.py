from scheduler.nova_db.instances import BoundedCache


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(BoundedCache, "LIMIT", 3)
    remembered = BoundedCache()
    remembered.put({1: "a", 2: "b"})
    remembered.put({3: "c"})
    assert (remembered.get(1), 4 in remembered) == ("a", False)
    remembered.put({4: "d"})
    assert (remembered.get(1), remembered.get(4)) == (None, "d")
