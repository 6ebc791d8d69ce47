"""Manager, plan and shadow decide alike: they call the same function."""

import pytest

from tests.unit.workflow.random_decisions import Decisions

#: Random clouds with a request for one instance. Of several, a plan builds one after the other, and a manager
#: learns from refused claims.
SEEDS = range(30)


@pytest.mark.parametrize("seed", SEEDS)
def test_manager_plan_and_shadow_choose_the_same_hosts(seed):
    one = Decisions(seed, instances=1)
    reply, tried = one.manager(), one.dry_run()
    if reply == "NoValidHost":
        assert tried["hosts"] == []
        assert one.shadow_hosts() == []
        return
    chosen = [first for first, *_ in reply]
    assert [[each["host"], *each["alternates"]] for each in tried["hosts"]] == reply
    assert one.plan() == chosen
    assert one.shadow_hosts() == chosen
