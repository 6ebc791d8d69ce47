"""berth-explain dry-run, capacity and compare: requests from arguments, and what is printed."""

import argparse
from dataclasses import replace
import json

import pytest

from scheduler import conf as options
from scheduler import objects
from scheduler.cmd import explain_decisions, operator_app
from scheduler.cmd.explain_requests import UnknownRequest, make_request, pairs
from scheduler.errors import InvalidSetting
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.request_specs import NotFound
from scheduler.nova_db.schema import API, flavors, instance_groups
from scheduler.request.reading import read
from tests.support.options import make_conf
from tests.unit.cmd import test_explain
from tests.unit.cmd.test_explain import Stub, cells, serving

# fixtures
config, record, run, scheduler = (
    getattr(test_explain, name) for name in ("config", "record", "run", "scheduler")
)

GPU = json.dumps({"name": "gpu", "vendor_id": "10de", "product_id": "1db4"})
CONF = make_conf(pci__alias=[GPU])
UUID = "11111111-1111-4111-8111-111111111111"


class Stored:
    """An API database with one flavor, one image and the request of one instance."""

    def __init__(self, **extra_specs):
        self.extra_specs = extra_specs

    def flavor(self, name):
        if name != "m1":
            raise NotFound(f"There is no flavor {name}")
        return objects.Flavor(name="m1", vcpus=1, memory_mb=64, root_gb=1, extra_specs=self.extra_specs)

    def image(self, image_id):
        return objects.ImageMeta(id=UUID, properties=objects.ImageMetaProps(hw_disk_bus="virtio"))

    def group(self, uuid):
        if uuid != UUID:
            raise NotFound(f"There is no server group with UUID {uuid}")
        return objects.InstanceGroup(uuid=uuid, name="db", policy="affinity", members=["i1"])

    def of_instance(self, uuid):
        return objects.RequestSpec(
            flavor=self.flavor("m1"), num_instances=7, instance_uuid=uuid, scheduler_hints={"group": ["g"]}
        )


def arguments(**given):
    defaults = dict.fromkeys(("flavor", "like", "spec", "image", "az", "project"))
    defaults |= {"image_property": [], "hint": [], "ignore_host": [], "boot_from_volume": False, "count": 1}
    return argparse.Namespace(**defaults | given)


def test_a_request_is_made_of_flavor_and_image():
    spec = make_request(
        arguments(
            flavor="m1",
            image=UUID,
            image_property=["hw_architecture=aarch64"],
            az="a",
            project="p",
            hint=["different_host=A", "different_host=B"],
            ignore_host=["h1"],
            boot_from_volume=True,
            count=3,
        ),
        Stored(),
        CONF,
    )
    assert (spec.flavor.name, spec.availability_zone, spec.project_id, spec.num_instances) == (
        "m1",
        "a",
        "p",
        3,
    )
    assert spec.image.properties.to_dict() == {"hw_disk_bus": "virtio", "hw_architecture": "aarch64"}
    assert (spec.scheduler_hints, spec.ignore_hosts) == ({"different_host": ["A", "B"]}, ["h1"])
    assert spec.is_bfv


def test_a_request_like_that_of_an_instance_is_for_a_new_one():
    spec = make_request(arguments(like=UUID, hint=["same_host=A"]), Stored(), CONF)
    assert (spec.num_instances, spec.scheduler_hints) == (1, {"group": ["g"], "same_host": ["A"]})
    assert spec.instance_uuid != UUID


def test_a_hint_for_a_server_group_puts_the_request_there():
    spec = make_request(arguments(flavor="m1", hint=[f"group={UUID}"]), Stored(), CONF)
    assert (spec.instance_group.uuid, spec.instance_group.policy) == (UUID, "affinity")
    assert spec.scheduler_hints == {"group": [UUID]}


@pytest.mark.parametrize(
    ("hints", "error", "words"),
    [
        (["group=g"], NotFound, "no server group"),
        ([f"group={UUID}", f"group={UUID}"], UnknownRequest, "one server group"),
    ],
    ids=["unknown", "several"],
)
def test_a_group_that_no_request_can_be_in_is_refused(hints, error, words):
    with pytest.raises(error, match=words):
        make_request(arguments(flavor="m1", hint=hints), Stored(), CONF)


@pytest.mark.parametrize(
    ("stored", "members"),
    [
        (objects.InstanceGroup(uuid=UUID, members=None, hosts=None), ["i1"]),
        (objects.InstanceGroup(uuid=UUID, members=["i2"], hosts=["h"]), ["i2"]),
        (objects.InstanceGroup(uuid=UUID.replace("1", "2")), None),
    ],
    ids=["stored", "sent", "deleted since"],
)
def test_the_group_of_a_stored_request_is_read_again(tmp_path, stored, members):
    path, spec = tmp_path / "spec.json", Stored().of_instance(UUID)
    spec.instance_group = stored
    path.write_text(json.dumps(spec.obj_to_primitive()))
    found = make_request(arguments(spec=str(path)), Stored(), CONF).instance_group
    assert (found and found.members) == members


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("a", ("a", None, None)),
        ("a:h", ("a", ["h"], None)),
        ("a:h:n", ("a", ["h"], ["n"])),
        ("a::n", ("a", None, ["n"])),
        (":h", (None, ["h"], None)),
    ],
)
def test_a_zone_may_name_a_host(given, wanted):
    spec = make_request(arguments(flavor="m1", az=given), Stored(), CONF)
    assert tuple(read(spec, name) for name in ("availability_zone", "force_hosts", "force_nodes")) == wanted


def test_a_request_is_read_from_a_file(tmp_path):
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(Stored().of_instance(UUID).obj_to_primitive()))
    assert make_request(arguments(spec=str(path)), Stored(), CONF).flavor.name == "m1"


@pytest.mark.parametrize("content", [None, "{", '{"a": 1}', "[]"], ids=["missing", "cut", "other", "list"])
def test_a_file_that_has_no_request_is_named(tmp_path, content):
    path = tmp_path / "spec.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UnknownRequest, match=r"spec\.json"):
        make_request(arguments(spec=str(path)), Stored(), CONF)


def test_a_flavor_s_topology_and_devices_are_made_as_nova_api_makes_them():
    extra_specs = {"hw:mem_page_size": "large", "pci_passthrough:alias": "gpu:2"}
    spec = make_request(arguments(flavor="m1"), Stored(**extra_specs), CONF)
    assert [(cell.memory, cell.pagesize) for cell in spec.numa_topology.cells] == [(64, -2)]
    (devices,) = spec.pci_requests.requests
    assert (devices.alias_name, devices.count) == ("gpu", 2)
    assert spec.requested_resources is None


def test_placement_is_asked_for_devices_if_an_option_says_so():
    conf = make_conf(pci__alias=[GPU], pci_in_placement=True)
    spec = make_request(arguments(flavor="m1"), Stored(**{"pci_passthrough:alias": "gpu:2"}), conf)
    (devices,) = spec.pci_requests.requests
    assert [(group.requester_id, group.resources) for group in spec.requested_resources] == [
        (f"{devices.request_id}-{number}", {"CUSTOM_PCI_10DE_1DB4": 1}) for number in range(2)
    ]


def test_an_alias_that_this_host_does_not_have_is_named():
    with pytest.raises(InvalidSetting, match=r"no PCI alias 'nic' in \[pci\]/alias"):
        make_request(arguments(flavor="m1"), Stored(**{"pci_passthrough:alias": "nic:1"}), CONF)


def test_shared_cpus_are_no_topology():
    spec = make_request(arguments(flavor="m1"), Stored(**{"hw:cpu_policy": "shared"}), CONF)
    assert spec.numa_topology is None


@pytest.mark.parametrize("given", ["a", "=b", ""])
def test_a_pair_needs_a_key_and_a_value(given):
    with pytest.raises(UnknownRequest, match="KEY=VALUE"):
        pairs([given])


# -- commands --------------------------------------------------------------------------------------------


@pytest.fixture
def database(config):
    """The API database of the configuration, with a flavor."""
    engines = Engines(options.load(["--config-file", str(config)]))
    API.create_all(engines.api())
    with engines.api().begin() as connection:
        amounts = {"vcpus": 1, "memory_mb": 64, "root_gb": 1, "ephemeral_gb": 0, "swap": 0}
        connection.execute(flavors.insert().values(name="m1", flavorid="1", **amounts))
    engines.dispose()


def test_a_dry_run_is_explained_as_a_decision_is(run, scheduler, database):
    status, output, _ = run("dry-run", "--flavor", "m1", "--count", "2", "--az", "a")
    assert status == 0
    assert "from the dry run of ctl.0" in output
    assert cells(output, "| RamFilter")[1:3] == ["2", "0"]
    assert (Stub.asked.flavor.name, Stub.asked.num_instances, Stub.asked.availability_zone) == ("m1", 2, "a")


def test_capacity_is_told(run, scheduler, database):
    status, output, _ = run("capacity", "--flavor", "m1")
    assert status == 0
    assert output.startswith("0 more instances fit: flavor")
    assert json.loads(run("capacity", "--flavor", "m1", "-f", "json")[1])["instances"] == 0


def test_capacity_does_not_pretend_to_know_server_groups(run, scheduler, database, config, tmp_path):
    """One that was named is refused, that of a stored request is left out and this is said."""
    engines = Engines(options.load(["--config-file", str(config)]))
    with engines.api().begin() as connection:
        connection.execute(instance_groups.insert().values(uuid=UUID, name="db"))
    engines.dispose()
    status, _, logged = run("capacity", "--flavor", "m1", "--hint", f"group={UUID}")
    assert status == operator_app.NOT_RUN
    assert "without server groups; use dry-run --count" in logged
    path, spec = tmp_path / "spec.json", Stored().of_instance(UUID)
    spec.instance_group = objects.InstanceGroup(uuid=UUID)
    path.write_text(json.dumps(spec.obj_to_primitive()))
    status, _, logged = run("capacity", "--spec", str(path))
    assert (status, Stub.asked.instance_group) == (0, None)
    assert "The server group of the request is left out" in logged


@pytest.fixture
def divided(config, monkeypatch):
    """Two partitions; flavor m1 belongs to ``gpu``. The schedulers are ``ctl`` and ``other``."""
    monkeypatch.setattr(explain_decisions, "scheduler_hosts", lambda conf: ["ctl", "other"])
    with config.open("a") as file:
        file.write("[berth_partition_general]\naggregates = a\n")
        file.write("[berth_partition_gpu]\naggregates = b\nflavors = m1\n")


def test_a_dry_run_is_asked_of_each_partition_until_one_has_a_host(
    run, config, record, divided, database, caplog
):
    placed = replace(record, error=None)
    with serving(config, "ctl", record, "general"), serving(config, "other", placed, "gpu"):
        assert "from the dry run of other.0" in run("dry-run", "--flavor", "m1")[1]
        assert "from the dry run of ctl.0" in run("dry-run", "--flavor", "m1", "--scheduler", "ctl")[1]
    with serving(config, "ctl", record, "general"), serving(config, "other", record, "gpu"):
        assert "from the dry run of ctl.0" in run("dry-run", "--flavor", "m1")[1]


def test_a_partition_that_does_not_answer_is_left_out_of_a_dry_run(run, config, record, divided, database):
    with serving(config, "ctl", record, "general"):
        status, output, _ = run("dry-run", "--flavor", "m1", "--timeout", "0.5")
    assert status == 0
    assert "from the dry run of ctl.0" in output


def test_the_capacity_of_all_partitions_is_added_up(run, config, record, divided, database):
    with serving(config, "ctl", record, "general"), serving(config, "other", record, "gpu"):
        found = json.loads(run("capacity", "--flavor", "m1", "-f", "json")[1])
        text = run("capacity", "--flavor", "m1")[1]
        alone = json.loads(run("capacity", "--flavor", "m1", "-f", "json", "--scheduler", "other")[1])
    assert found["scheduler"] == "ctl.0, other.0"
    assert [(each["partition"], each["scheduler"]) for each in found["partitions"]] == [
        ("general", "ctl.0"),
        ("gpu", "other.0"),
    ]
    assert "partition gpu: 0, from other.0" in text
    assert found["total"]["hosts"] == 2 * alone["total"]["hosts"] > 0
    assert [place["partition"] for place in found["places"]] == ["general", "gpu"]


def test_a_comparison_is_told(run, scheduler):
    status, output, _ = run(
        "compare",
        "--set",
        "enabled_filters=RamFilter",
        "--set",
        "available_filters=nova.scheduler.filters.ram_filter.RamFilter",
    )
    assert status == 0
    assert "-> ['RamFilter']" in output
    assert "1 of 1 instances in 1 requests of ctl.0 would go elsewhere" in output
    assert cells(output, "| Instances that find")[1:] == ["1", "0"]
    assert cells(output, "| req-1")[4] == "none"
    assert run("compare", "--set", "ram_weight_multiplier=-1", "--decision", "req-9")[0] == 1


def test_the_last_requests_are_those_of_all_workers(run, config, record, monkeypatch):
    """Of two workers with a request each, --last 1 is the later one's."""
    monkeypatch.setattr(explain_decisions, "scheduler_hosts", lambda conf: ["ctl", "other"])
    later = replace(record, request_id="req-2", started_at=record.started_at + 60)
    with serving(config, "ctl", record), serving(config, "other", later):
        both = json.loads(run("compare", "--set", "ram_weight_multiplier=-1", "-f", "json")[1])
        last = json.loads(run("compare", "--set", "ram_weight_multiplier=-1", "--last", "1", "-f", "json")[1])
    assert [one["request_id"] for one in both["choices"]] == ["req-1", "req-2"]
    assert (both["scheduler"], both["requests"]) == ("ctl.0, other.0", 2)
    assert [one["request_id"] for one in last["choices"]] == ["req-2"]
    assert last["scheduler"] == "other.0"


def test_requests_that_are_left_out_of_a_comparison_are_told(run, config, record, monkeypatch):
    """Placement offered nothing to one of two requests."""
    empty = replace(record, request_id="req-2", hosts=None, allowed=None)
    compare = ("compare", "--set", "ram_weight_multiplier=-1")
    monkeypatch.setattr(explain_decisions, "scheduler_hosts", lambda conf: ["ctl", "other"])
    with serving(config, "ctl", record), serving(config, "other", empty):
        assert "\nLeft out: 1 request (Placement offered no host)\n" in run(*compare)[1]
        status, output, logged = run(*compare, "--decision", "req-2")
    assert (status, output) == (1, "")
    assert "no request that can be decided again. Left out: 1 request (Placement offered no host)" in logged


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["dry-run", "--flavor", "nothing"], "There is no flavor nothing"),
        (["compare", "--set", "nothing=1"], "There is no option [filter_scheduler]/nothing"),
        (["compare", "--set", "ram_weight_multiplier"], "is not KEY=VALUE"),
        (["compare", "--set", "placement.auth_url=x"], "[placement]/auth_url does not decide between hosts"),
    ],
    ids=" ".join,
)
def test_what_cannot_be_asked_is_one_line(run, database, argv, words):
    status, output, logged = run(*argv, "--timeout", "0.2")
    assert (status, output) == (operator_app.NOT_RUN, "")
    assert words in logged
    assert "Traceback" not in logged


@pytest.mark.parametrize(
    "argv",
    [["dry-run"], ["dry-run", "--flavor", "m1", "--like", UUID], ["compare"], ["capacity", "--flavor"]],
    ids=" ".join,
)
def test_wrong_arguments(run, argv, capsys):
    assert run(*argv)[0] == operator_app.NOT_RUN


def test_an_api_database_that_is_away_is_one_line(run):
    status, _, logged = run("capacity", "--flavor", "m1")
    assert status == operator_app.NOT_RUN
    assert "The API database cannot be read" in logged
