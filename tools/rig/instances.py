"""Instances that are there before anything is asked: what they hold in Placement, and what computes report.

Their rows in ``instances`` are not made: no scheduler reads these for a request.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
import json
import random
from typing import Any

import sqlalchemy as sa

from scheduler.nova_db import schema
from tools.rig.fleet import CPU_RATIO, RESERVED_MB, Fleet, Host, compute_node_row, insert
from tools.rig.load import FLAVORS, PROJECT, USER, Flavor, random_uuid

#: Tries of an instance to find a host with room.
TRIES = 50

_TABLES = ("resource_providers", "resource_classes", "allocations", "consumers", "projects", "users")


@dataclass(frozen=True)
class Placed:
    """An instance on a host."""

    uuid: str
    host: Host
    flavor: Flavor

    @property
    def amounts(self) -> dict[str, int]:
        """What it holds of each resource class."""
        return self.flavor.amounts


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
        "VCPU": int(machine.threads * CPU_RATIO),
        "MEMORY_MB": machine.memory_mb - RESERVED_MB,
        "DISK_GB": machine.disk_gb,
    }


def fill_placement(engine: sa.Engine, placed: Sequence[Placed]) -> None:
    """Write what instances hold into Placement's database, in bulk."""
    tables = sa.MetaData()
    tables.reflect(engine, only=_TABLES)
    providers, classes, allocations, consumers, projects, users = (tables.tables[name] for name in _TABLES)
    with engine.begin() as connection:
        ids = dict(connection.execute(sa.select(providers.c.uuid, providers.c.id)).all())
        class_ids = dict(connection.execute(sa.select(classes.c.name, classes.c.id)).all())
        project, user = (
            connection.execute(sa.insert(table), {"external_id": name}).inserted_primary_key[0]
            for table, name in ((projects, f"{PROJECT}-filled"), (users, f"{USER}-filled"))
        )
        owner = {"project_id": project, "user_id": user, "generation": 1}
        insert(connection, consumers, ({"uuid": each.uuid, **owner} for each in placed))
        rows = (
            {
                "resource_provider_id": ids[each.host.uuid],
                "consumer_id": each.uuid,
                "resource_class_id": class_ids[name],
                "used": amount,
            }
            for each in placed
            for name, amount in each.amounts.items()
        )
        insert(connection, allocations, rows)


def fill_cell(engine: sa.Engine, placed: Iterable[Placed]) -> None:
    """Write what instances use into the rows of their compute nodes, which are of one cell."""
    of_host = defaultdict(list)
    for each in placed:
        of_host[each.host].append(each.amounts)
    nodes = schema.compute_nodes
    rows = [{"node": host.uuid, **_usage(host, amounts)} for host, amounts in of_host.items()]
    if rows:
        names = {name: sa.bindparam(name) for name in rows[0] if name != "node"}
        with engine.begin() as connection:
            connection.execute(
                sa.update(nodes).where(nodes.c.uuid == sa.bindparam("node")).values(names), rows
            )


def _usage(host: Host, held: Sequence[Mapping[str, int]]) -> dict[str, Any]:
    vcpus, memory_mb, disk_gb = (
        sum(each[name] for each in held) for name in ("VCPU", "MEMORY_MB", "DISK_GB")
    )
    row = compute_node_row(host)
    return {
        "vcpus_used": vcpus,
        "memory_mb_used": row["memory_mb_used"] + memory_mb,
        "free_ram_mb": row["free_ram_mb"] - memory_mb,
        "local_gb_used": disk_gb,
        "free_disk_gb": row["free_disk_gb"] - disk_gb,
        "disk_available_least": row["disk_available_least"] - disk_gb,
        "running_vms": len(held),
        "stats": json.dumps({"failed_builds": "0", "num_instances": str(len(held))}),
    }
