"""What a choice takes off a host (spec: filters-and-weighers 1.11)."""

from scheduler import objects
from scheduler.numa.fit import Fitter
from scheduler.numa.topology import HostTopology
from scheduler.selection import consume
from tests.builders import make_host, make_view
from tests.unit.numa.shapes import host_cell
from tests.unit.selection.requests import group, make_request, make_spec


def take(spec, view=None):
    view = view or make_view([make_host("h1").ram(4096).disk(102400).vcpus(16)])
    request = make_request(spec)
    consume.consume(view, 0, request, Fitter())
    request.write_progress()
    return view.host(0)


def test_amounts():
    host = take(make_spec())
    assert (host.free_ram_mb, host.free_disk_mb, host.vcpus_used) == (4096 - 512, 102400 - 4 * 1024, 2)
    assert (host.num_instances, host.num_io_ops) == (1, 1)


def test_root_counts_for_a_volume_and_swap_never():
    flavor = objects.Flavor(memory_mb=1, vcpus=1, root_gb=10, ephemeral_gb=0, swap=2048, extra_specs={})
    assert take(make_spec(flavor=flavor, is_bfv=True)).free_disk_mb == 102400 - 10 * 1024


def test_without_a_group_instances_are_left_alone():
    assert take(make_spec(instance_group=None)).instances == {}


def test_a_group_learns_of_its_host_and_the_host_of_the_instance():
    spec = make_spec(instance_group=group(policy="affinity", policies=["affinity"], members=["i0"], hosts=[]))
    host = take(spec)
    assert spec.instance_group.hosts == ["h1"]
    assert list(host.instances) == ["i0"]


def test_an_error_in_a_topology_is_a_warning(monkeypatch, caplog):
    def broken(*_args):
        raise ValueError("strange topology")

    monkeypatch.setattr(consume, "consume_instance", broken)
    spec = make_spec(
        pci_requests=objects.InstancePCIRequests(requests=[objects.InstancePCIRequest(count=1, spec=[{}])]),
        instance_group=group(policy="affinity", policies=["affinity"], members=["i0"], hosts=[]),
    )
    host = take(spec)
    assert (host.num_instances, spec.instance_group.hosts) == (1, ["h1"])
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "strange topology" in caplog.text


def test_a_numa_guest_is_charged_to_the_cells_of_the_host_and_its_fit_is_kept_for_the_next_instance():
    topology = HostTopology((host_cell(cpuset=frozenset(range(4)), pcpuset=frozenset()),))
    view = make_view([make_host("h1").numa(topology)])
    cell = objects.InstanceNUMACell(id=0, cpuset={0, 1}, pcpuset=set(), memory=512, pagesize=-1)
    request = make_request(make_spec(numa_topology=objects.InstanceNUMATopology(cells=[cell])))
    consume.consume(view, 0, request, Fitter())
    assert [cell.cpu_usage for cell in view.coded("numa_topology")[0].cells] == [2]
    assert [cell.pagesize for cell in request.progress.guest.cells] == [4]
    assert request.guest.cells[0].pagesize == -1
