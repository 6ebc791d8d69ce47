"""Berth beside an outside claimer and deleters on nearly full hosts; the long form is a command."""

import pytest

from tools.contention.run import MODES, Plan, run

SHORT = Plan(seconds=3, hosts=6)


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("mysql_url", marks=pytest.mark.mariadb),
        pytest.param("postgresql_url", marks=pytest.mark.postgresql),
    ],
)
def test_nothing_is_overcommitted_leaked_or_denied_falsely(request, server):
    found = run(request.getfixturevalue(server), SHORT)
    assert {mode: findings.problems for mode, findings in found.items()} == {mode: [] for mode in MODES}
    for mode, findings in found.items():
        asked = [name for name in findings.outcomes if "Berth" in name or "NoValidHost" in name]
        assert asked, (mode, findings.outcomes)
        assert findings.outcomes["looks at all allocations"], mode
