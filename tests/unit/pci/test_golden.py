"""All PCI cases recorded from nova 34.0.0."""

import pytest

from tests.golden import replay


def by_id(case):
    return case["id"]


@pytest.mark.parametrize("case", replay.cases("pci", "support"), ids=by_id)
def test_support(case):
    actual, expect = replay.run_support(case), dict(case["expect"])
    if expect.pop("error", None):  # nova raises; a refusal says the same without ending the call
        assert not actual["supported"]
    assert {key: actual[key] for key in expect} == expect


@pytest.mark.parametrize("case", replay.cases("pci", "filter"), ids=by_id)
def test_filter(case):
    actual, expect = replay.run_filter(case), case["expect"]
    if "error" in expect:
        assert not actual["passes"]
        return
    assert actual == {**expect, "limits": replay.slim(expect["limits"])}


@pytest.mark.parametrize("case", replay.cases("pci", "boot"), ids=by_id)
def test_boot(case):
    actual, expect = replay.run_boot(case), case["expect"]
    assert actual["steps"] == expect["steps"]


@pytest.mark.parametrize("case", replay.cases("pci", "load_pci"), ids=by_id)
def test_load(case):
    actual, expect = replay.run_load_pci(case), case["expect"]
    assert ("error" in actual) if "error" in expect else actual == expect


@pytest.mark.parametrize("case", replay.cases("pci", "weight"), ids=by_id)
def test_weight(case):
    assert replay.run_weight(case) == case["expect"]
