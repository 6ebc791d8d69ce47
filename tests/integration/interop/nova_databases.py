"""Run by nova's own Python: makes nova's databases by nova's migrations, its cells and its compute hosts.

nova_databases.py NOVA_CONF NOVA_CONF HOSTS EMPTY: HOSTS is a JSON file {cell: {"database", "transport", "hosts": [...]}}. The
database of a cell is an SQLite URL, as that of ``[database]``, which becomes cell0. EMPTY is a directory where empty tables are
kept for further clouds.
"""

import json
import logging
import pathlib
import shutil
import sys


def prepare(*config_files):
    from nova import config, objects
    from nova.cmd import manage

    config.parse_args(["nova-manage", *(word for path in config_files for word in ("--config-file", path))])
    logging.disable(logging.WARNING)
    objects.register_all()
    return manage


def make_databases(manage, cells, empty):
    from nova.conf import CONF

    api, cell0 = empty / "api.sqlite", empty / "cell.sqlite"
    if not cell0.exists():
        manage.ApiDbCommands().sync()
        manage.DbCommands().sync(local_cell=True)
        shutil.copy(path_of(CONF.api_database.connection), api)
        shutil.copy(path_of(CONF.database.connection), cell0)
    shutil.copy(api, path_of(CONF.api_database.connection))
    commands = manage.CellV2Commands()
    for url in (CONF.database.connection, *(cell["database"] for cell in cells.values())):
        shutil.copy(cell0, path_of(url))
    assert not commands.map_cell0(CONF.database.connection)
    for name, cell in cells.items():
        assert not commands.create_cell(name, cell["database"], cell["transport"])


def path_of(url):
    return url.removeprefix("sqlite:///")


def add_computes(cells):
    """What nova-compute writes when it starts."""
    from nova import context, objects

    for mapping in objects.CellMappingList.get_all(context.get_admin_context()):
        for host in cells.get(mapping.name, {"hosts": []})["hosts"]:
            with context.target_cell(context.get_admin_context(), mapping) as cell_context:
                add_compute(objects, cell_context, host)


def add_compute(objects, context, host):
    objects.Service(
        context, host=host["name"], binary="nova-compute", topic="compute", report_count=0
    ).create()
    objects.ComputeNode(
        context,
        uuid=host["uuid"],
        host=host["name"],
        hypervisor_hostname=host["nodename"],
        vcpus=host["vcpus"],
        memory_mb=host["memory_mb"],
        local_gb=host["local_gb"],
        vcpus_used=0,
        memory_mb_used=0,
        local_gb_used=0,
        free_ram_mb=host["memory_mb"],
        free_disk_gb=host["local_gb"],
        disk_available_least=host["local_gb"],
        current_workload=0,
        running_vms=0,
        hypervisor_type="QEMU",
        hypervisor_version=8002002,
        cpu_info="",
        host_ip="192.0.2.1",
        supported_hv_specs=[objects.HVSpec(arch="x86_64", hv_type="kvm", vm_mode="hvm")],
        pci_device_pools=objects.PciDevicePoolList(objects=[]),
        metrics="[]",
        stats={"failed_builds": "0"},
        cpu_allocation_ratio=4.0,
        ram_allocation_ratio=1.0,
        disk_allocation_ratio=1.0,
    ).create()


def main():
    *config_files, hosts, empty = sys.argv[1:]
    cells = json.loads(pathlib.Path(hosts).read_text())
    manage = prepare(*config_files)
    make_databases(manage, cells, pathlib.Path(empty))
    add_computes(cells)
    assert not manage.CellV2Commands().discover_hosts()
    sys.stdout.write(json.dumps("done") + "\n")


if __name__ == "__main__":
    main()
