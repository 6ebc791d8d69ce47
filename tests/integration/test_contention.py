"""Berth beside an outside claimer and deleters on nearly full hosts; the long form is a command."""

import pytest

from tools.scenarios import contention


@pytest.mark.parametrize(
    "server",
    [
        pytest.param("mysql_url", marks=pytest.mark.mariadb),
        pytest.param("postgresql_url", marks=pytest.mark.postgresql),
    ],
)
def test_nothing_is_overcommitted_leaked_or_denied_falsely(request, server, tmp_path):
    found = contention.run(request.getfixturevalue(server), tmp_path, seconds=6, hosts=6)
    assert list(found.problems) == []
    for name in ("placed by Berth", "deleted", "looks at all allocations", "outside claim, HTTP 204"):
        assert found.outcomes[name], found.outcomes
