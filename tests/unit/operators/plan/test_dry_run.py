from scheduler.operators.plan.dry_run import dry_run
from tests.builders import uuid_of
from tests.unit.operators.plan.clouds import MadeCloud, flavor, group, node
from tests.unit.operators.plan.test_capacity import request


def test_hosts_alternates_and_weights_are_told():
    cloud = MadeCloud(node("h1"), node("h2"), node("h3", ram=10000)).put("i", "h1", flavor(ram=4096))
    _, spec = request(cloud, flavor("m1", ram=1024))
    spec.num_instances = 2
    planned = cloud.planned()
    found = dry_run(planned, spec)
    assert (found["placed"], found["instances"]) == (2, 2)
    assert [one["host"] for one in found["hosts"]] == ["h3", "h2"]
    assert found["hosts"][0]["alternates"] == ["h1"]
    assert [one["host"] for one in found["best"]] == ["h3", "h2", "h1"]
    assert found["best"][0]["weight"] == max(one["weight"] for one in found["best"])
    assert planned.snapshot.table.numbers["num_instances"].tolist() == [1, 0, 0]


def test_what_leaves_no_host_is_told_filter_by_filter():
    cloud = MadeCloud(node("h1").disabled(), node("h2", ram=512))
    _, spec = request(cloud, flavor("m1", ram=1024))
    found = dry_run(cloud.planned(), spec)
    assert found["placed"] == 0
    stages = {one["name"]: one for one in found["why"]["stages"]}
    assert (stages["Placement"]["before"], stages["Placement"]["after"]) == (2, 1)
    assert stages["Placement"]["causes"] == ["less than 1024 MEMORY_MB free: 1"]
    assert stages["ComputeFilter"]["after"] == 0
    assert "disabled" in stages["ComputeFilter"]["causes"][0]


def test_new_members_of_a_server_group_are_kept_apart():
    apart = group("apart", "anti-affinity", ["m1"])
    cloud = MadeCloud(node("h1"), node("h2"), node("h3")).put("m1", "h1", in_group=apart)
    _, spec = request(cloud, flavor())
    spec.instance_group = apart.obj_clone()
    spec.num_instances = 2
    found = dry_run(cloud.planned(), spec)
    assert sorted(one["host"] for one in found["hosts"]) == ["h2", "h3"]
    assert apart.members == [uuid_of("m1")]


def test_hints_without_effect_are_told():
    cloud = MadeCloud(node("h1"))
    _, spec = request(cloud, flavor(), scheduler_hints={"differnt_host": ["x"]})
    notes = dry_run(cloud.planned(), spec)["notes"]
    assert any("did you mean different_host" in note for note in notes)
