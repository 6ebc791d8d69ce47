"""Instances that are there before anything is asked, those ``placed`` of a fleet.

What computes report of them is written with the fleet. Their own rows are made only where somebody reads
them; for a request no scheduler does.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
import json
import random
from typing import TYPE_CHECKING, Any
import uuid

import sqlalchemy as sa

from scheduler import objects
from scheduler.nova_db import schema
from tools.rig.fleet import Fleet, Host, Placed, insert
from tools.rig.load import FLAVORS, PROJECT, USER, BootRequest, random_uuid

if TYPE_CHECKING:
    from tools.rig.world import RunningWorld

#: The name of server groups.
GROUP = "databases"
#: Days in which the instances were created.
AGE = 30
#: Tries of an instance to find a host with room.
TRIES = 50

_TABLES = ("resource_providers", "resource_classes", "allocations", "consumers", "projects", "users")


def place(fleet: Fleet, count: int, seed: int = 1) -> list[Placed]:
    """Spread instances of the loads' flavors over the hosts, at random; the same seed gives the same ones.

    Raises:
        ValueError: The hosts have no room for so many.
    """
    rng = random.Random(seed)
    flavors = [flavor for flavor in FLAVORS for _ in range(flavor.share)]
    left = {host.number: _room(host) for host in fleet.hosts}
    placed = []
    for _ in range(count):
        flavor = rng.choice(flavors)
        for _ in range(TRIES):
            host = rng.choice(fleet.hosts)
            room = left[host.number]
            if all(room[name] >= amount for name, amount in flavor.amounts.items()):
                break
        else:
            raise ValueError(f"{len(fleet.hosts)} hosts have no room for {count} instances")
        for name, amount in flavor.amounts.items():
            room[name] -= amount
        placed.append(Placed(random_uuid(rng), host, flavor))
    return placed


def _room(host: Host) -> dict[str, int]:
    machine = host.hardware
    return {
        "VCPU": int(machine.threads * machine.cpu_ratio),
        "MEMORY_MB": machine.memory_mb - machine.reserved_mb,
        "DISK_GB": machine.disk_gb,
    }


def fill_placement(engine: sa.Engine, placed: Sequence[Placed]) -> None:
    """Write what instances hold into Placement's database, in bulk."""
    if not placed:
        return
    # Without times Placement cannot read the allocations of a provider
    times = dict.fromkeys(("created_at", "updated_at"), schema.utcnow())
    tables = sa.MetaData()
    tables.reflect(engine, only=_TABLES)
    providers, classes, allocations, consumers, projects, users = (tables.tables[name] for name in _TABLES)
    with engine.begin() as connection:
        ids = dict(connection.execute(sa.select(providers.c.uuid, providers.c.id)).all())
        class_ids = dict(connection.execute(sa.select(classes.c.name, classes.c.id)).all())
        project, user = (
            connection.execute(sa.insert(table), {"external_id": name, **times}).inserted_primary_key[0]
            for table, name in ((projects, f"{PROJECT}-filled"), (users, f"{USER}-filled"))
        )
        owner = {"project_id": project, "user_id": user, "generation": 1, **times}
        insert(connection, consumers, ({"uuid": each.uuid, **owner} for each in placed))
        rows = (
            {
                "resource_provider_id": ids[each.host.uuid],
                "consumer_id": each.uuid,
                "resource_class_id": class_ids[name],
                "used": amount,
                **times,
            }
            for each in placed
            for name, amount in each.amounts.items()
        )
        insert(connection, allocations, rows)


def write(cloud: "RunningWorld") -> None:
    """Write the rows of the instances of a cloud, what was requested for them, and their cells."""
    fleet, now = cloud.fleet, schema.utcnow()
    specs = {flavor: BootRequest([""], flavor).spec() for flavor in {each.flavor for each in fleet.placed}}
    with cloud.connection("api") as connection:
        cells = dict(
            connection.execute(sa.select(schema.cell_mappings.c.uuid, schema.cell_mappings.c.id)).all()
        )
        mappings = (
            {"instance_uuid": each.uuid, "project_id": PROJECT, "cell_id": cells[each.host.cell.uuid]}
            for each in fleet.placed
        )
        insert(connection, schema.instance_mappings, mappings)
        insert(
            connection, schema.request_specs, (_request(each, specs[each.flavor]) for each in fleet.placed)
        )
    for cell in fleet.cells:
        here = (_row(each, now) for each in fleet.placed if each.host.cell == cell)
        with cloud.connection(cell.name) as connection:
            insert(connection, schema.instances, here)


def group_uuid(number: int) -> str:
    """Return the UUID of the server group of a number."""
    return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{GROUP} {number}" if number else GROUP))


def _request(placed: Placed, spec: Any) -> dict[str, Any]:
    group = placed.group
    spec.instance_uuid = placed.uuid
    spec.instance_group = None if group is None else objects.InstanceGroup(uuid=group_uuid(group))
    return {"instance_uuid": placed.uuid, "spec": json.dumps(spec.obj_to_primitive())}


def _row(placed: Placed, now: datetime) -> dict[str, Any]:
    return {
        "uuid": placed.uuid,
        "display_name": f"vm-{placed.number}",
        "host": placed.host.name,
        "node": placed.host.nodename,
        "deleted": 0,
        "project_id": PROJECT,
        "user_id": USER,
        "vm_state": placed.state,
        "hidden": False,
        "vcpus": placed.flavor.vcpus,
        "memory_mb": placed.flavor.memory_mb,
        "root_gb": placed.flavor.root_gb,
        "ephemeral_gb": 0,
        "created_at": now - timedelta(days=placed.number * 7 % AGE, hours=1),
    }
