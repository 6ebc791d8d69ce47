"""Explanations of requests that find no valid host, against a real Placement; the long form is a command."""

from pathlib import Path

import pytest

from tests.support.campaigns import numbers
from tools.rig.draw import Kinds
from tools.scenarios import why_not

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

#: Clouds with one request each: two seconds of CPU for each cloud, most of them of Placement.
CLOUDS = 6

#: The fewest and the most hosts of a cloud: of more than 16 not the limits of each are read.
HOSTS = (3, 30)

#: Clouds of explanations that were false. In the first one Placement offers a host with the capacities of one whose unit
#: limits refuse the request; in the second one a filter rejects the requested destination.
MENDED = ("limits_of_another_host", "named_host_that_is_offered")


@pytest.mark.parametrize("number", numbers(1, 20))
def test_an_explanation_is_true_for_each_constraint_taken_away(tmp_path, campaign_seed, number):
    total, first = why_not.Report(), campaign_seed + number * CLOUDS
    for _seed, report in why_not.run(tmp_path, range(first, first + CLOUDS), 1, Kinds(HOSTS)):
        total.add(report)
    assert total.problems == []
    assert total.counts["clouds"] == CLOUDS
    assert total.counts["named as sufficient"]
    assert total.counts["refused"] > 1


@pytest.mark.parametrize("name", MENDED)
def test_an_explanation_that_was_false_is_true(tmp_path, name):
    found = why_not.run_saved(tmp_path, (Path(__file__).parent / f"{name}.json").read_text())
    assert found.problems == []
    assert found.counts["refused"] == 1
