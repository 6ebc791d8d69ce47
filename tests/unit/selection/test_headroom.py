from scheduler.placement.answer import Usage
from scheduler.selection.headroom import Headroom
from tests.unit.selection.requests import make_candidate

USAGES = {"p": {"VCPU": Usage(8, 3), "MEMORY_MB": Usage(100, 0)}, "full": {"VCPU": Usage(2, 5)}}


def headroom(*planned):
    made = Headroom(lambda provider: USAGES.get(provider, {}))
    for candidate in planned:
        made.plan(candidate)
    return made


def test_what_is_planned_counts():
    two = make_candidate("p", VCPU=2, MEMORY_MB=10)
    assert headroom().fits(two)
    assert headroom(two).fits(two)
    assert not headroom(two, two).fits(two)
    assert headroom(two, two).fits(make_candidate("p", VCPU=1))
    assert headroom(two, two).fits(make_candidate("p", MEMORY_MB=80))
    assert not headroom(two, two).fits(make_candidate("p", VCPU=1, MEMORY_MB=81))


def test_providers_of_which_nothing_is_known_have_headroom():
    other = make_candidate("other", VCPU=9)
    assert headroom(other, other).fits(other)
    unknown_class = make_candidate("p", VGPU=1)
    assert headroom(unknown_class).fits(unknown_class)


def test_what_placement_offers_is_not_doubted_before_something_is_planned():
    assert headroom().fits(make_candidate("full", VCPU=1))
    assert not headroom(make_candidate("full", VCPU=1)).fits(make_candidate("full", VCPU=1))
