from scheduler.decisions import rendering
from scheduler.operators.explain.decision import funnel
from scheduler.operators.plan.dry_run import dry_run
from tests.builders import uuid_of
from tests.unit.operators.plan.clouds import MadeCloud, flavor, group, node
from tests.unit.operators.plan.test_capacity import request
from tests.unit.operators.plan.test_drain import cloud_with_pages, paged_spec


def test_hosts_alternates_and_weights_are_told():
    cloud = MadeCloud(node("h1"), node("h2"), node("h3", ram=10000)).put("i", "h1", flavor(ram=4096))
    _, spec = request(cloud, flavor("m1", ram=1024))
    spec.num_instances = 2
    planned = cloud.planned()
    found = dry_run(planned, spec)
    assert (found.placed, found.instances) == (2, 2)
    assert [one.host for one in found.hosts] == ["h3", "h2"]
    assert found.hosts[0].alternates == ["h1"]
    decision = found.decision
    weighed = {one.host: one.total for one in rendering.hosts(decision)}
    assert sorted(weighed, key=weighed.get, reverse=True) == ["h3", "h2", "h1"]
    assert planned.snapshot.table.numbers["num_instances"].tolist() == [1, 0, 0]


def test_what_leaves_no_host_is_told_filter_by_filter():
    cloud = MadeCloud(node("h1").disabled(), node("h2", ram=512))
    _, spec = request(cloud, flavor("m1", ram=1024))
    found = dry_run(cloud.planned(), spec)
    assert found.placed == 0
    decision = found.decision
    stages = {one.name: one for one in rendering.funnel(decision)}
    assert (stages["Mirror of Placement"].end, stages["ComputeFilter"].end) == (1, 0)
    disabled, full = sorted(decision.cause.words.split("; "), reverse=True)
    assert full == "1 host lacks only 1024 MEMORY_MB: MEMORY_MB capacity 512"
    assert disabled.startswith("1 host lacks only an enabled compute service: service disabled")


def test_how_many_of_several_find_a_host_is_told():
    cloud = MadeCloud(node("h1", ram=2048))
    _, spec = request(cloud, flavor("m1", ram=1024))
    spec.num_instances = 3
    found = dry_run(cloud.planned(), spec)
    assert (found.placed, found.fitting) == (0, 2)
    told = found.shown()
    assert told.head.subject == "A host for 0 of 3 instances of flavor m1; the first 2 would find one"


def test_later_members_of_an_affinity_group_find_no_room_that_the_first_has_taken():
    cloud = MadeCloud(node("h1", ram=2048), node("h2", ram=2048))
    _, spec = request(cloud, flavor("m1", ram=1200))
    spec.instance_group = group("together", "affinity", [])
    spec.num_instances = 2
    found = dry_run(cloud.planned(), spec)
    assert (found.placed, found.fitting) == (0, 1)


def test_a_dry_run_has_the_stages_of_its_decision():
    cloud = MadeCloud(node("h1").disabled())
    _, spec = request(cloud, flavor("m1", ram=1024))
    found = dry_run(cloud.planned(), spec)
    told = found.shown()
    assert told.tables[0] == funnel(found.decision)
    assert told.head.title == "Dry run: No host (NoValidHost)"
    assert told.status == 3


def test_new_members_of_a_server_group_are_kept_apart():
    apart = group("apart", "anti-affinity", ["m1"])
    cloud = MadeCloud(node("h1"), node("h2"), node("h3")).put("m1", "h1", in_group=apart)
    _, spec = request(cloud, flavor())
    spec.instance_group = apart.obj_clone()
    spec.num_instances = 2
    found = dry_run(cloud.planned(), spec)
    assert sorted(one.host for one in found.hosts) == ["h2", "h3"]
    assert apart.members == [uuid_of("m1")]


def test_hints_without_effect_are_told():
    cloud = MadeCloud(node("h1"))
    _, spec = request(cloud, flavor(), scheduler_hints={"differnt_host": ["x"]})
    notes = dry_run(cloud.planned(), spec).notes
    assert any("did you mean different_host" in note for note in notes)


def test_guests_of_one_request_get_pages_of_one_size():
    """In nova each starts from the fit of the one before (spec: numa-and-pci 3.13)."""
    cloud, wanted = cloud_with_pages(1)
    _, spec = request(cloud, wanted, numa_topology=paged_spec())
    spec.num_instances = 2
    found = dry_run(cloud.planned(), spec)
    assert (found.placed, found.fitting) == (0, 1)


def test_builds_of_one_request_run_at_once():
    cloud = MadeCloud(node("h1"), enabled_filters=["IoOpsFilter"], max_io_ops_per_host=2)
    _, spec = request(cloud, flavor("m1"))
    spec.num_instances = 3
    found = dry_run(cloud.planned(), spec)
    assert (found.placed, found.fitting) == (0, 2)
