"""A state that lasts costs one line of the log in a minute, however many requests meet it.

Lines about one instance name it, and are written for each.
"""

from collections import Counter
import contextlib
import logging
import re

import pytest

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.logs import RateLimitedLogger
from scheduler.request import query
from tests.unit.selection.requests import group, host_with_candidate, make_spec
from tests.unit.test_manager import ask, conf, make_world  # noqa: F401 - fixtures

REQUESTS = 200

SIZES = {"memory_mb": 512, "vcpus": 2, "root_gb": 3, "ephemeral_gb": 1, "swap": 0}


def flavor(**extra_specs):
    extra_specs = {name.replace("_", ":", 1): value for name, value in extra_specs.items()}
    return objects.Flavor(**SIZES, extra_specs=extra_specs)


def two_hosts(second=None):
    return [host_with_candidate("h1"), second or host_with_candidate("h2")]


#: What is wrong: the hosts, fields of the requests, options, and how the one line begins.
STATES = {
    "host forced down": (
        two_hosts(host_with_candidate("h2").forced_down()),
        {},
        {},
        "Compute services that are down: 1 (h2)",
    ),
    "host without a heartbeat": (
        two_hosts(host_with_candidate("h2").down()),
        {},
        {},
        "Compute services that are down: 1 (h2)",
    ),
    "no host up": (
        [host_with_candidate("h1").down()],
        {},
        {},
        "Compute services that are down: 1 (h1)",
    ),
    "host without vCPUs": (
        two_hosts(host_with_candidate("h2").vcpus(0)),
        {},
        {"filter_scheduler": {"enabled_filters": ["CoreFilter"]}},
        "Hosts that report no vCPUs and pass unchecked: 1",
    ),
    "unknown zone": (
        [host_with_candidate("h1").az("a")],
        {"availability_zone": "b"},
        {},
        "No aggregate is availability zone b",
    ),
    "malformed extra spec": (
        two_hosts(),
        {"flavor": flavor(trait_X="bogus")},
        {},
        "Extra spec trait:X='bogus' of the flavor is malformed",
    ),
    "groups without a policy": (
        two_hosts(),
        {"flavor": flavor(resources1_VGPU="1", resources2_VGPU="1")},
        {},
        "The flavor has several suffixed groups but no group_policy",
    ),
    "project without an aggregate": (
        two_hosts(),
        {},
        {
            "scheduler": {
                "limit_tenants_to_placement_aggregate": True,
                "placement_aggregate_required_for_tenants": True,
            }
        },
        "No aggregate is for project p",
    ),
    "unknown disk format": (
        two_hosts(),
        {"image": objects.ImageMeta(disk_format="odd", properties=objects.ImageMetaProps())},
        {"scheduler": {"query_placement_for_image_type_support": True}},
        "Trait COMPUTE_IMAGE_TYPE_ODD of the image's disk format does not exist",
    ),
    "unknown image property": (
        two_hosts(),
        {"image": objects.ImageMeta(properties=objects.ImageMetaProps(hw_vif_model="odd"))},
        {"scheduler": {"image_metadata_prefilter": True}},
        "Trait COMPUTE_NET_VIF_MODEL_ODD of an image property does not exist",
    ),
    "unknown security of a vTPM": (
        two_hosts(),
        {"flavor": flavor(hw_tpm_version="2.0", hw_tpm_secret_security="odd")},
        {},
        "hw:tpm_secret_security=odd of the flavor is not one of",
    ),
    "members of a group not found": (
        two_hosts(),
        {
            "instance_group": group(
                uuid="g", policies=["affinity"], policy="affinity", members=["m"], hosts=[]
            )
        },
        {},
        "Cannot find all members of server group g",
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_200_equal_requests_write_one_line(make_world, conf, caplog, monkeypatch, state):  # noqa: F811
    # Another test of this process may have written the line within the minute
    monkeypatch.setattr(query, "_REPEATED", RateLimitedLogger(query.LOG))
    hosts, fields, changed, beginning = STATES[state]
    for section, values in changed.items():
        for name, value in values.items():
            conf.set_override(name, value, section)
    conf.set_override("service_down_time", 3000)  # hosts that are up stay up if the requests take minutes
    world = make_world(hosts)
    if "instance_group" in fields:
        world.hosts.hosts_of_instances = lambda uuids: (frozenset({"h1"}), False)
    caplog.clear()
    caplog.set_level(logging.INFO)
    for number in range(REQUESTS):
        uuid = f"instance-{number}"
        with contextlib.suppress(BerthError):  # some states leave no host
            ask(world, make_spec(project_id="p", instance_uuid=uuid, **fields), [uuid])
    lines = Counter(
        text for text in caplog.messages if not re.search(r"instance-\d|^Filter \w+ returned 0", text)
    )
    assert max(lines.values()) == 1, lines.most_common(3)
    assert [text for text in lines if text.startswith(beginning)] == [next(iter(lines))]
