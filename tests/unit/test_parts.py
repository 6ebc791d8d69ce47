"""The parts of a scheduler, put together."""

from scheduler.nova_db.inventory import HostInventory
from scheduler.parts import Outside, make_world, no_stream, put_together
from scheduler.placement.client import PlacementClient
from scheduler.placement.write_policy import Timing
from tests.support.clock import Clock

CLOCKS = {"clock", "_clock", "monotonic", "_monotonic", "_timer"}


def clocks_of(held, path="", seen=None):
    """The clocks by path of all that an object of the product holds."""
    seen = set() if seen is None else seen
    if id(held) in seen:
        return {}
    seen.add(id(held))
    if isinstance(held, dict):
        inner = held
    elif isinstance(held, list | tuple):
        inner = dict(enumerate(held))
    elif type(held).__module__.startswith("scheduler.") and type(held).__module__ != "scheduler.logs":
        slots = getattr(type(held), "__slots__", ())
        inner = {**getattr(held, "__dict__", {}), **{name: getattr(held, name) for name in slots}}
    else:
        return {}
    found = {f"{path}.{name}": each for name, each in inner.items() if name in CLOCKS and callable(each)}
    for name, each in inner.items():
        found |= clocks_of(each, f"{path}.{name}", seen)
    return found


def outside_of(nova, clock):
    nova.conf.set_override("auth_type", "none", "placement")
    client = PlacementClient(None, clock=clock)
    return Outside(HostInventory(nova.conf, clock), client, None, Timing(clock))


def test_all_parts_have_the_clock_of_the_hosts(nova):
    """Requests compare moments of all parts. Logs and the stream, which are not among them, count seconds."""
    clock = Clock()
    outside = outside_of(nova, clock)
    parts = put_together(nova.conf, outside, make_stream=no_stream)
    found = clocks_of([parts, make_world(nova.conf, parts, None)(driver=None)])
    assert len(found) > 19
    assert {path: each for path, each in found.items() if each is not clock} == {}


def test_claims_of_other_schedulers_go_to_the_mirror_that_they_keep_fresh(nova):
    """And not to the nodes in it alone, which would be minutes old at the first request after a fail-over."""
    states = []
    parts = put_together(
        nova.conf,
        outside_of(nova, Clock()),
        make_stream=lambda conf, state: states.append(state) or no_stream(conf, state),
    )
    assert [state.mirror for state in states] == [parts.mirror]
