from scheduler.hosts import foreign_providers
from scheduler.hosts.foreign_providers import ForeignProviders


def test_memory_is_bounded(monkeypatch):
    monkeypatch.setattr(foreign_providers, "MAX_FOREIGN", 1)
    foreign = ForeignProviders()
    for uuid in ("a", "b", "c"):
        foreign.remember([uuid])
    assert [uuid in foreign for uuid in ("a", "b", "c")] == [False, False, True]
