from scheduler.nova_db import host_store
from scheduler.nova_db.host_store import ForeignProviders


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(host_store, "MAX_FOREIGN", 1)
    foreign = ForeignProviders()
    for uuid in ("a", "b", "c"):
        foreign.remember([uuid])
    assert [uuid in foreign for uuid in ("a", "b", "c")] == [False, False, True]
