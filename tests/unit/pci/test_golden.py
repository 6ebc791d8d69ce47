"""All PCI cases recorded from nova 34.0.0."""

import pytest

from tests.golden import filters, replay


@pytest.mark.parametrize("case", replay.cases("pci", "support"))
def test_support(case):
    actual, expect = replay.run_support(case), dict(case["expect"])
    if expect.pop("error", None):  # nova raises; a refusal says the same without ending the call
        assert not actual["supported"]
    assert {key: actual[key] for key in expect} == expect


@pytest.mark.parametrize("case", filters.support_cases())
def test_support_through_the_filter(case):
    assert filters.run_support(case) is case["expect"].get("supported", False)


@pytest.mark.parametrize("case", replay.cases("pci", "filter"))
def test_filter_through_the_filters(case):
    replay.check_filter(filters.run_filter(case), case)


@pytest.mark.parametrize("case", replay.cases("pci", "boot"))
def test_boot_through_filters_and_driver(case):
    steps = [{k: v for k, v in step.items() if k != "consumed"} for step in case["expect"]["steps"]]
    assert filters.run_boot(case) == steps


@pytest.mark.parametrize("case", replay.cases("pci", "load_pci"))
def test_load(case):
    actual, expect = replay.run_load_pci(case), case["expect"]
    assert ("error" in actual) if "error" in expect else actual == expect


@pytest.mark.parametrize("case", replay.cases("pci", "weight"))
def test_weight(case):
    assert replay.run_weight(case) == case["expect"]
