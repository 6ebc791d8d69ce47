"""Manager, plan and shadow decide alike: they call the same function."""

import pytest

from scheduler.claims.session import NothingSent
from scheduler.decisions.trace import Trace
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.workflow.decide import decide
from tests.unit.workflow.random_decisions import Decisions

#: Random clouds with a request for one instance. Of several, a plan builds one after the other, and a manager
#: learns from refused claims.
SEEDS = range(30)


@pytest.mark.parametrize("seed", SEEDS)
def test_manager_plan_and_shadow_choose_the_same_hosts(seed):
    one = Decisions(seed, instances=1)
    reply, tried = one.manager(), one.dry_run()
    if reply == "NoValidHost":
        assert tried.hosts == []
        assert one.shadow_hosts() == []
        return
    chosen = [first for first, *_ in reply]
    assert [[each.host, *each.alternates] for each in tried.hosts] == reply
    assert one.plan() == chosen
    assert one.shadow_hosts() == chosen


class Watched:
    """A world that notes the step that is listed of the request when each of its parts is used."""

    def __init__(self, world, trace):
        self._world, self._trace, self.seen = world, trace, {}

    def __getattr__(self, name):
        self.seen[name] = self._trace.step
        return getattr(self._world, name)


@pytest.mark.parametrize(
    ("uuids", "steps"),
    [
        (["i"], {"queries": "query", "mirrored": "mirror", "driver": "selection"}),
        (
            None,
            {"mirrored": "mirror", "ask_placement": "placement", "offered": "table", "driver": "selection"},
        ),
    ],
    ids=["by the mirror", "by Placement"],
)
def test_the_step_of_a_request_is_known_at_any_time(uuids, steps):
    one = Decisions(11, instances=1)
    request = SchedulingRequest.of(one.spec(), uuids, one.context)
    trace = Trace(request)
    watched = Watched(one.world, trace)
    decide(request, watched, NothingSent, trace)
    assert watched.seen.items() >= steps.items()
