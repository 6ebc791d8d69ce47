"""Explanations of requests that find no valid host, against a real Placement; the long form is a command."""

import pytest

from tools.scenarios import why_not

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

CLOUDS = 5


def test_an_explanation_is_true_for_each_constraint_taken_away(tmp_path):
    report = why_not.run(tmp_path, CLOUDS, seed=2)
    assert report.problems == []
    assert report.counts["named as sufficient"]
    assert report.counts["refused"] >= CLOUDS
