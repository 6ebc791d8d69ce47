from scheduler.nova_db.foreign_providers import FOREIGN_TTL, ForeignProviders


def known(foreign, *uuids):
    return [uuid in foreign for uuid in uuids]


def test_memory_is_bounded(clock):
    foreign = ForeignProviders(clock, max_providers=1)
    for uuid in ("a", "b", "c"):
        foreign.add([uuid])
    assert known(foreign, "a", "b", "c") == [False, False, True]


def test_a_provider_is_looked_for_again_after_its_time(clock):
    foreign = ForeignProviders(clock)
    foreign.add(["a"])
    clock.now += FOREIGN_TTL - 1
    assert known(foreign, "a") == [True]
    clock.now += 1
    assert known(foreign, "a") == [False]


def test_all_providers_are_looked_for_again_after_clear(clock):
    foreign = ForeignProviders(clock)
    foreign.add(["a"])
    foreign.clear()
    assert known(foreign, "a") == [False]


def test_new_providers_are_reported_once_and_only_if_all_cells_were_asked(clock, caplog):
    caplog.set_level("INFO")
    foreign = ForeignProviders(clock)
    foreign.add(["a"], certain=False)
    assert caplog.messages == []
    foreign.add(["a", "b"])
    clock.now += FOREIGN_TTL + 1
    foreign.add(["a", "b", "c"])
    assert caplog.messages == [
        "Resource providers in Placement that are not compute nodes: 2, such as a",
        "Resource providers in Placement that are not compute nodes: 1, such as c",
    ]
