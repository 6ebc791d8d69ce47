"""Campaigns: tests with random inputs that find more the longer they run.

The suite runs a short form of each with fixed seeds; ``tools/run-tests --campaigns`` runs the long form with a new seed.
"""

import hypothesis
import pytest

#: Examples that hypothesis draws for a test of the suite, and how many times as many a campaign has.
EXAMPLES = 50
MORE = 40


def load_profile(*, in_campaign):
    """Set how many examples hypothesis draws. There is no deadline: several runs share the machines of CI."""
    count = EXAMPLES * (MORE if in_campaign else 1)
    hypothesis.settings.register_profile(
        "berth", deadline=None, max_examples=count, derandomize=not in_campaign, print_blob=in_campaign
    )
    hypothesis.settings.load_profile("berth")


def examples(few):
    """Settings of hypothesis for a test with slow examples: the suite draws ``few``."""
    return hypothesis.settings(max_examples=few * hypothesis.settings().max_examples // EXAMPLES)


def numbers(few, many):
    """Numbers for ``parametrize``: the suite runs the first ``few``, a campaign all ``many``.

    A test adds its number to ``campaign_seed``.
    """
    return [pytest.param(number, marks=pytest.mark.campaign(only=number >= few)) for number in range(many)]


def is_run(item, *, in_campaign):
    """Whether a test is run: the suite leaves out the long form of campaigns, a campaign all other tests."""
    campaign = item.get_closest_marker("campaign")
    if in_campaign:
        return campaign is not None or hypothesis.is_hypothesis_test(item.obj)
    return campaign is None or not campaign.kwargs.get("only", True)
