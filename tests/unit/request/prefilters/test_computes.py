import pytest

from scheduler.request.prefilters import host_traits
from tests.unit.request.builders import (
    make_group,
    make_level_params,
    make_pci_requests,
    make_services,
    make_spec,
    required,
)

OWNER = "OWNER_NOVA"
ID = "d0000000-0000-0000-0000-00000000000d"
ALIAS = {"alias_name": "gpu", "request_id": ID}


@pytest.mark.parametrize(
    ("version", "traits"),
    [(0, set()), (72, set()), (73, {OWNER}), (80, {OWNER})],
)
def test_owner_nova_filter(version, traits, caplog):
    spec = make_spec()
    assert host_traits.owner_nova_filter(spec, None, make_services(version=version)) is bool(traits)
    assert required(spec) == traits
    assert (f"service version {version}" in caplog.text) is not bool(traits)


def test_old_computes_are_told_of_once_and_not_at_every_request(caplog):
    services = make_services(version=66)
    for _ in range(3):
        host_traits.owner_nova_filter(make_spec(), None, services)
    assert caplog.text.count("service version 66") == 1


def test_owner_required_already_needs_no_look_up():
    spec = make_spec(
        request_level_params=make_level_params(root_required={OWNER}),
        pci_requests=make_pci_requests(ALIAS),
        requested_resources=[make_group(f"{ID}-0", {"A": 1})],
    )
    services = make_services(version=None)  # comparing it would fail
    assert host_traits.owner_nova_filter(spec, None, services) is True
    assert spec.requested_resources[0].required_traits == set()
