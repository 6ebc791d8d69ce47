"""Berth beside an outside claimer and deleters on nearly full hosts; the long form is a command."""

import pytest

from tools.contention.run import Plan, run

SHORT = Plan(seconds=6, hosts=6)


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("mysql_url", marks=pytest.mark.mariadb),
        pytest.param("postgresql_url", marks=pytest.mark.postgresql),
    ],
)
def test_nothing_is_overcommitted_leaked_or_denied_falsely(request, server):
    found = run(request.getfixturevalue(server), SHORT)
    assert found.problems == []
    for name in ("placed by Berth", "deleted", "looks at all allocations", "outside claim, HTTP 204"):
        assert found.outcomes[name], found.outcomes
