from dataclasses import replace
import os
import subprocess

import pytest

from scheduler import objects
from scheduler.numa.guest import LARGE
from scheduler.numa.topology import HostCell, HostTopology, PagePool
from scheduler.operators.plan.drain import commands, drain
from scheduler.operators.plan.moves import PlannedMove, causes
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from tests.builders import OTHER_CELL, uuid_of
from tests.unit.operators.plan.clouds import MadeCloud, flavor, group, node


def plan_of(cloud, *hosts):
    planned = cloud.planned()
    rows = [number for number, row in enumerate(planned.snapshot.table.rows) if row.host in hosts]
    return drain(planned, rows)


def moves_of(plan):
    return {move.instance: move.to for move in plan.moves}


def reasons_of(plan):
    return {each.instance: each.why for each in plan.without_place}


def test_each_instance_goes_to_the_host_with_most_memory_free_then():
    cloud = MadeCloud(node("old"), node("a", ram=9000), node("b"))
    for name in ("i1", "i2", "i3"):
        cloud.put(name, "old", flavor(ram=1000))
    plan = plan_of(cloud, "old")
    assert [move.to for move in plan.moves] == ["a", "a", "b"] or [move.to for move in plan.moves] == [
        "a",
        "b",
        "a",
    ]
    assert (plan.without_place, plan.missing) == ([], {})
    assert {each.host: each.instances for each in plan.targets} == {"a": 2, "b": 1}


def test_no_instance_goes_to_another_host_that_is_to_be_empty():
    cloud = MadeCloud(node("h1"), node("h2"), node("h3")).put("i1", "h1").put("i2", "h2")
    assert set(moves_of(plan_of(cloud, "h1", "h2")).values()) == {"h3"}


@pytest.mark.parametrize(("hosts", "expected"), [(("h1", "h2", "h3"), "h2"), (("h1", "h3"), "h3")])
def test_a_host_that_refused_an_instance_gets_it_only_if_no_other_can(hosts, expected):
    cloud = MadeCloud(*(node(host, ram=16384 if host == "h3" else 8192) for host in hosts))
    planned = cloud.put("i1", "h1").put("i2", "h1").planned()
    plan = drain(planned, [0], refused={uuid_of("i1"): "h3"})
    assert moves_of(plan) == {uuid_of("i1"): expected, uuid_of("i2"): "h3"}


def test_what_is_missing_is_told_in_sum_with_the_step_that_left_no_host():
    cloud = MadeCloud(node("h1"), node("h2"))
    cloud.put("big", "h1", flavor("big", ram=6000, vcpus=4)).put("other", "h2", flavor("other", ram=4000))
    plan = plan_of(cloud, "h1")
    assert plan.missing == {"DISK_GB": 1, "MEMORY_MB": 6000, "VCPU": 4}
    (text,) = reasons_of(plan).values()
    assert "lacks only 6000 MEMORY_MB: at most 4192 MEMORY_MB free" in text


def test_causes_that_differ_in_numbers_are_one_cause():
    cloud = MadeCloud(node("h1", ram=16384), node("h2", ram=1024))
    for number, ram in enumerate((4096, 3072, 2048)):
        cloud.put(f"i{number}", "h1", flavor(f"m{ram}", ram=ram))
    (cause,) = causes(plan_of(cloud, "h1").without_place)
    assert cause.startswith("3 instances for example: 1 host lacks only 4096 MEMORY_MB")


def test_instances_stay_in_their_cell():
    cloud = MadeCloud(node("h1"), node("h2", cell=OTHER_CELL)).put("i1", "h1")
    (text,) = reasons_of(plan_of(cloud, "h1")).values()
    assert "1 host suits but is not in the cell of the instance" in text


def test_members_of_an_anti_affinity_group_are_kept_apart_at_every_step():
    apart = group("apart", "anti-affinity", ["m1", "m2", "m3"])
    cloud = MadeCloud(node("h1"), node("h2"), node("h3", ram=32000), node("h4"))
    for member, host in (("m1", "h1"), ("m2", "h2"), ("m3", "h4")):
        cloud.put(member, host, in_group=apart)
    plan = plan_of(cloud, "h1", "h2")
    assert moves_of(plan) == {uuid_of("m1"): "h3"} or moves_of(plan) == {uuid_of("m2"): "h3"}
    (text,) = reasons_of(plan).values()
    assert "rejected only by ServerGroupAntiAffinityFilter" in text


def test_members_of_an_affinity_group_cannot_leave_their_host():
    together = group("together", "affinity", ["m1", "m2"])
    cloud = MadeCloud(node("h1"), node("h2"))
    cloud.put("m1", "h1", in_group=together).put("m2", "h1", in_group=together)
    plan = plan_of(cloud, "h1")
    assert not plan.moves
    assert all("ServerGroupAffinityFilter" in text for text in reasons_of(plan).values())


def pinned_spec():
    cell = objects.InstanceNUMACell(
        id=0, cpuset=set(), pcpuset={0, 1}, memory=512, pagesize=None, cpu_policy="dedicated"
    )
    return objects.InstanceNUMATopology(cells=[cell])


def host_cells(cpus):
    numbers = frozenset(range(cpus))
    return HostTopology(
        (
            HostCell(
                id=0,
                cpuset=frozenset(),
                pcpuset=numbers,
                memory=8192,
                siblings=tuple(frozenset({one}) for one in numbers),
            ),
        )
    )


def test_pinned_guests_do_not_share_cpus_at_any_step():
    wanted = flavor("pinned", vcpus=2, ram=512)
    cloud = MadeCloud(node("h1"), node("h2").numa(host_cells(2)), node("h3").numa(host_cells(2)))
    for name in ("p1", "p2", "p3"):
        cloud.put(name, "h1", wanted, numa_topology=pinned_spec())
    plan = plan_of(cloud, "h1")
    assert sorted(moves_of(plan).values()) == ["h2", "h3"]
    (text,) = reasons_of(plan).values()
    assert "rejected only by NUMATopologyFilter" in text


@pytest.mark.parametrize("state", ["error", "resized", "soft-delete", "suspended"])
def test_what_nova_cannot_move_is_told(state):
    cloud = MadeCloud(node("h1"), node("h2")).put("i1", "h1", state=state)
    assert reasons_of(plan_of(cloud, "h1")) == {uuid_of("i1"): f"nova moves no instance that is {state}"}


def test_an_instance_without_a_request_is_told():
    cloud = MadeCloud(node("h1"), node("h2")).put("i1", "h1").put("i2", "h1")
    cloud.requests[uuid_of("i1")] = "{"
    del cloud.requests[uuid_of("i2")]
    plan = plan_of(cloud, "h1")
    assert set(reasons_of(plan).values()) == {"no readable request of it is stored"}


def test_an_instance_whose_request_nova_refuses_by_now_stays():
    cloud = MadeCloud(node("a"), node("b")).put("i1", "a")
    cloud.put("i2", "a", flavor("encrypted", hw__mem_encryption="true"))
    plan = plan_of(cloud, "a")
    assert moves_of(plan) == {uuid_of("i1"): "b"}
    assert causes(plan.without_place)[0].endswith(
        "Memory encryption needs an image with hw_firmware_type=uefi"
    )


def test_a_device_of_a_port_is_no_resource_of_placement():
    """Requests from Neutron ports are excluded (spec: placement-and-workflow 1.8)."""
    port = objects.InstancePCIRequest(
        count=1, spec=[{"physical_network": "net"}], alias_name=None, request_id=uuid_of("port")
    )
    cloud = MadeCloud(node("h1"), node("h2"), pci_in_placement=True)
    cloud.put("i1", "h1", pci_requests=objects.InstancePCIRequests(requests=[port]))
    assert moves_of(plan_of(cloud, "h1")) == {uuid_of("i1"): "h2"}


def test_the_order_is_one_that_works():
    """Small ones first would leave no host for the large one."""
    cloud = MadeCloud(node("h1", ram=16384), node("h2", ram=4096), node("h3", ram=4096))
    cloud.put("small1", "h1", flavor("small", ram=2048)).put("small2", "h1", flavor("small", ram=2048))
    cloud.put("large", "h1", flavor("large", ram=4096))
    plan = plan_of(cloud, "h1")
    assert plan.without_place == []
    assert plan.moves[0].instance == uuid_of("large")


def test_instances_of_one_request_are_decided_as_if_one_came_after_the_other():
    def cloud(project):
        made = MadeCloud(
            node("h1", ram=65536, vcpus=64), *(node(f"n{at}", ram=9000 + 300 * at) for at in range(5))
        )
        for number in range(12):
            made.put(f"i{number:02}", "h1", flavor(ram=1500), project_id=project(number))
        return made

    together = plan_of(cloud(lambda _: "p"), "h1")
    alone = plan_of(cloud(lambda number: f"p{number}"), "h1")
    assert len({move.to for move in together.moves}) > 1
    assert [move.to for move in together.moves] == [move.to for move in alone.moves]


def test_the_reason_is_that_of_the_first_instance_without_a_place():
    """Others of the same request have filled the last hosts by then."""
    cloud = MadeCloud(node("h1", ram=16384), node("h2", ram=4096))
    for number in range(6):
        cloud.put(f"i{number}", "h1", flavor(ram=1024))
    plan = plan_of(cloud, "h1")
    assert len(plan.moves) == 4
    texts = set(reasons_of(plan).values())
    assert len(texts) == 1
    assert "1 host lacks only 1024 MEMORY_MB: at most 0 MEMORY_MB free" in texts.pop()


def test_services_do_not_go_down_while_a_plan_is_made():
    hour = 3600.0
    cloud = MadeCloud(node("h1"), node("h2"), node("h3", ram=65536).seen(hour)).put("i1", "h1")
    snapshot = cloud.snapshot()
    snapshot.table.numbers["service_seen"] -= hour
    long_ago = replace(snapshot, read_at=snapshot.read_at - hour)
    # h3 would be better, but was down when it was read
    assert moves_of(drain(PlannedCloud(long_ago), [0])) == {uuid_of("i1"): "h2"}


def paged_spec():
    cell = objects.InstanceNUMACell(
        id=0, cpuset={0}, pcpuset=set(), memory=1024, pagesize=LARGE, cpu_policy="shared"
    )
    return objects.InstanceNUMATopology(cells=[cell])


def with_pages(size, count):
    """A host's only NUMA cell, with pages of 4 KiB and others."""
    pages = PagePool(4, 2 * 1024 * 1024), PagePool(size, count)
    return HostTopology((HostCell(id=0, cpuset=frozenset(range(8)), memory=8192, pages=pages),))


def cloud_with_pages(room):
    """Two hosts with room for so many guests each, on pages of different sizes; h2 has a little more memory."""
    small = node("h2", ram=8500).numa(with_pages(2048, 512 * room))
    large = node("h3").numa(with_pages(1024 * 1024, room))
    return MadeCloud(node("h1"), small, large), flavor("paged", vcpus=1, ram=1024)


def test_each_guest_chooses_its_page_size():
    """nova moves each by a request of its own: the page size that the first one got is not that of the second."""
    cloud, wanted = cloud_with_pages(2)
    for name in ("p1", "p2"):
        cloud.put(name, "h1", wanted, numa_topology=paged_spec())
    plan = plan_of(cloud, "h1")
    assert (sorted(moves_of(plan).values()), reasons_of(plan)) == (["h2", "h3"], {})


#: A client: a file named after an instance has a line for each look at it, host and task. $FAILED names an instance
#: whose migrations fail: it stays. Others are first on their old host with a task, then there without one.
CLIENT = """\
#!/bin/sh
cd "$HOSTS" || exit 9
echo "$OS_COMPUTE_API_VERSION $*" >> calls
for instance; do :; done
case "$*" in
    *REFUSED*) exit 1 ;;
    "server show"*)
        head -n 1 "$instance" | tr ' ' '\\n'
        [ "$(wc -l < "$instance")" = 1 ] || sed -i 1d "$instance" ;;
    "server evacuate"* | "server migrate"*)
        [ "$instance" = "$FAILED" ] && exit 0
        while [ "$1" != --host ]; do shift; done
        printf '%s\\n' "h1 migrating" "h1 None" "$2 None" > "$instance" ;;
esac
"""


def plan(*moves):
    return [
        PlannedMove(
            instance=name,
            state="active",
            source="h1",
            step=step,
            to=host,
            way=way,
            zone="z",
            reset_state=False,
        )
        for step, (name, host, way) in enumerate(moves, 1)
    ]


THREE = plan(("i1", "h2", "live"), ("i2", "h3", "cold"), ("i3", "h2", "live"))


@pytest.fixture
def run(tmp_path):
    """Run the script of a plan; all instances are on h1 at first."""

    def run(made, failed=""):
        programs, hosts = tmp_path / "bin", tmp_path / "hosts"
        programs.mkdir()
        hosts.mkdir()
        client = programs / "openstack"
        client.write_text(CLIENT)
        client.chmod(0o755)
        (programs / "sleep").symlink_to("/bin/true")
        for move in made:
            (hosts / move.instance).write_text("h1 None\n")
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOSTS": str(hosts), "FAILED": failed}
        text = "\n".join(commands(made))
        ended = subprocess.run(
            ["sh"], input=text, env=environment, capture_output=True, text=True, check=False
        )
        where = {move.instance: (hosts / move.instance).read_text().split()[-2] for move in made}
        return ended, where, (hosts / "calls").read_text().splitlines()

    return run


def test_instances_are_moved_in_order_and_cold_ones_are_confirmed(run):
    ended, where, calls = run(THREE)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert where == {"i1": "h2", "i2": "h3", "i3": "h2"}
    assert [call for call in calls if "show" not in call] == [
        "2.56 server migrate --live-migration --host h2 i1",
        "2.56 server migrate --host h3 i2",
        "2.56 server migration confirm i2",
        "2.56 server migrate --live-migration --host h2 i3",
    ]


@pytest.mark.parametrize(("failed", "moved"), [("i1", {}), ("i2", {"i1": "h2"})])
def test_the_script_stops_at_an_instance_that_is_not_on_its_planned_host(run, failed, moved):
    ended, where, calls = run(THREE, failed)
    assert ended.returncode == 1
    planned = {"i1": "h2", "i2": "h3"}[failed]
    assert ended.stderr == f"Stopped: instance {failed} is on host h1, the plan says {planned}\n"
    assert where == {"i1": "h1", "i2": "h1", "i3": "h1"} | moved
    assert not any("confirm" in call for call in calls)


def test_the_script_stops_at_a_command_that_fails(run):
    ended, where, _calls = run(plan(("i1", "REFUSED", "live"), ("i2", "h2", "live")))
    assert ended.returncode == 1
    assert where == {"i1": "h1", "i2": "h1"}


def test_instances_of_a_dead_host_are_evacuated_after_a_reset_if_they_need_it(run):
    made = plan(("i1", "h2", "evacuate"), ("i2", "h3", "evacuate"))
    made[0].reset_state = True
    ended, where, calls = run(made)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert where == {"i1": "h2", "i2": "h3"}
    assert [call for call in calls if "show" not in call] == [
        "2.56 server set --state error i1",
        "2.56 server evacuate --host h2 i1",
        "2.56 server evacuate --host h3 i2",
    ]


def test_the_script_stops_at_an_instance_that_is_not_evacuated(run):
    ended, where, _calls = run(plan(("i1", "h2", "evacuate"), ("i2", "h3", "evacuate")), failed="i1")
    assert ended.returncode == 1
    assert ended.stderr == "Stopped: instance i1 is on host h1, the plan says h2\n"
    assert where == {"i1": "h1", "i2": "h1"}


def test_the_version_of_the_api_comes_first():
    assert commands(THREE)[0] == "export OS_COMPUTE_API_VERSION=2.56"


def test_a_plan_without_moves_has_no_commands():
    assert commands(plan()) == []
