"""Explanations of requests that find no valid host, against a real Placement; the long form is a command."""

import pytest

from tools.scenarios import why_not

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Clouds with one request each: a second of CPU for each cloud, half of it Placement's.
CLOUDS = 30


def test_an_explanation_is_true_for_each_constraint_taken_away(tmp_path):
    total = why_not.Report()
    for _seed, report in why_not.run(tmp_path, range(CLOUDS), requests=1):
        total.add(report)
    assert total.problems == []
    assert total.counts["clouds"] == CLOUDS
    assert total.counts["named as sufficient"] >= CLOUDS / 3
    assert total.counts["refused"] >= CLOUDS / 2
