from scheduler.hosts.remembered import Remembered


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(Remembered, "LIMIT", 3)
    remembered = Remembered()
    remembered.put({1: "a", 2: "b"})
    remembered.put({3: "c"})
    assert (remembered.get(1), 4 in remembered) == ("a", False)
    remembered.put({4: "d"})
    assert (remembered.get(1), remembered.get(4)) == (None, "d")
