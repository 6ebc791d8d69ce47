import logging

import pytest

from scheduler import errors, objects
from scheduler.request import prefilters
from tests.unit.request.builders import (
    SWITCHES,
    make_conf,
    make_flavor,
    make_networks,
    make_services,
    make_spec,
)

NAMES = [
    "require_tenant_aggregate",
    "map_az_to_placement_aggregate",
    "require_image_type_support",
    "compute_status_filter",
    "isolate_aggregates",
    "transform_image_metadata",
    "accelerators_filter",
    "packed_virtqueue_filter",
    "routed_networks_filter",
    "remote_managed_ports_filter",
    "ephemeral_encryption_filter",
    "virtio_sound_filter",
    "tpm_secret_security_filter",
    "owner_nova_filter",
]


def test_order():
    assert [prefilter.__name__ for prefilter in prefilters.PREFILTERS] == NAMES


ALWAYS = {
    *("compute_status_filter", "accelerators_filter", "packed_virtqueue_filter"),
    *("remote_managed_ports_filter", "owner_nova_filter"),
}
TPM = {"hw:tpm_version": "2.0"}
BY_REQUEST = {
    "nothing": ((), {}, set()),
    "a project": (("limit_tenants_to_placement_aggregate",), {}, {"require_tenant_aggregate"}),
    "a zone": ((), {"availability_zone": "z"}, {"map_az_to_placement_aggregate"}),
    "an empty zone": ((), {"availability_zone": ""}, set()),
    "a disk format": (
        ("query_placement_for_image_type_support",),
        {"disk_format": "raw"},
        {"require_image_type_support"},
    ),
    "aggregates with traits": (("enable_isolated_aggregate_filtering",), {}, {"isolate_aggregates"}),
    "properties": (
        ("image_metadata_prefilter",),
        {"image": {"hw_disk_bus": "sata"}},
        {"transform_image_metadata"},
    ),
    "networks": (
        ("query_placement_for_routed_network_aggregates",),
        {"requested_networks": make_networks({"network_id": "flat"})},
        {"routed_networks_filter"},
    ),
    "no networks": (("query_placement_for_routed_network_aggregates",), {}, {"routed_networks_filter"}),
    "encryption": ((), {"image": {"hw_ephemeral_encryption": True}}, {"ephemeral_encryption_filter"}),
    "sound": ((), {"image": {"hw_sound_model": "virtio"}}, {"virtio_sound_filter"}),
    "another sound": ((), {"image": {"hw_sound_model": "ich9"}}, set()),
    "a TPM": ((), {"extra_specs": TPM}, {"tpm_secret_security_filter"}),
}


@pytest.mark.parametrize(("switches", "fields", "more"), BY_REQUEST.values(), ids=BY_REQUEST)
def test_those_that_concern_the_request_are_logged(caplog, switches, fields, more):
    caplog.set_level(logging.DEBUG)
    prefilters.run(make_spec(**fields), None, make_services(make_conf(*switches)))
    logged = [record.getMessage() for record in caplog.records if record.levelno == logging.DEBUG]
    expected = [name for name in NAMES if name in ALWAYS | more]
    assert logged == [f"Request filter '{name}' took 0.0 seconds" for name in expected]


def test_a_bare_request_passes_all_of_them():
    switches = [name for name in SWITCHES if name != "placement_aggregate_required_for_tenants"]
    spec = objects.RequestSpec(
        flavor=make_flavor(), image=None, scheduler_hints=None, requested_resources=None
    )
    prefilters.run(spec, None, make_services(make_conf(*switches)))
    assert spec.root_required == {"OWNER_NOVA"}
    assert spec.root_forbidden == {"COMPUTE_STATUS_DISABLED"}
    assert spec.requested_destination is None


def test_running_twice_adds_nothing_to_sets():
    spec = make_spec()
    prefilters.run(spec, None, make_services())
    once = spec.obj_clone()
    prefilters.run(spec, None, make_services())
    assert spec.obj_to_primitive() == once.obj_to_primitive()


def test_a_refusal_ends_the_run_and_keeps_earlier_changes():
    spec = make_spec({"hw:sound_model": "bogus"})
    with pytest.raises(errors.InvalidSetting):
        prefilters.run(spec, None, make_services())
    assert spec.root_forbidden == {"COMPUTE_STATUS_DISABLED"}
    assert spec.root_required == set()
