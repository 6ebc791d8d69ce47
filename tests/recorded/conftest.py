"""Berth is compared with what nova has answered, and with what it answers now where it is installed."""

import pytest

from tests.recorded import answers


@pytest.fixture(
    scope="module",
    params=["recorded", pytest.param("asked", marks=[pytest.mark.interop, pytest.mark.campaign(only=False)])],
)
def answered(request, campaign_seed):
    """Cases of the kind that the module names, and nova's answers; in a campaign other cases."""
    if request.param == "recorded":
        return answers.recorded(request.module.KIND)
    return answers.asked(request.module.KIND, request.getfixturevalue("nova"), campaign_seed)
