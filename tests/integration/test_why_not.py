"""Explanations of requests that find no valid host, against a real Placement; the long form is a command."""

import pytest

from tests.support.campaigns import numbers
from tools.scenarios import why_not

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Clouds with one request each: two seconds of CPU for each cloud, most of them of Placement.
CLOUDS = 6

#: A host that Placement offers, with the capacities of one whose unit limits refuse the request.
MENDED = (5105,)


@pytest.mark.parametrize("number", numbers(1, 20))
def test_an_explanation_is_true_for_each_constraint_taken_away(tmp_path, campaign_seed, number):
    total, first = why_not.Report(), campaign_seed + number * CLOUDS
    for _seed, report in why_not.run(tmp_path, (*range(first, first + CLOUDS), *MENDED), requests=1):
        total.add(report)
    assert total.problems == []
    assert total.counts["clouds"] == CLOUDS + len(MENDED)
    assert total.counts["named as sufficient"]
    assert total.counts["refused"] > len(MENDED)
