"""A small random cloud that changes: what operators, computes and other clients do to Placement and nova's databases."""

from collections.abc import Callable
import itertools
import uuid

import requests
import sqlalchemy as sa

from scheduler.nova_db import schema
from tests.integration.placement.random_clouds import TRAITS, random_part
from tools.rig.fleet import Host, compute_node_row, service_row
from tools.rig.providers import HEADERS, Provider, create_fleet
from tools.rig.world import RunningWorld, World

DISABLED = "COMPUTE_STATUS_DISABLED"
SHARES = "MISC_SHARES_VIA_AGGREGATE"
HOSTS = 8

#: What the hosts of the fleet have of each class, in their own databases' terms far less than their hardware.
VCPUS, MEMORY, DISKS = (8, 16), (8192, 16384), (100, 400)

OPTIONS = """\
[scheduler]
max_attempts = 100
enable_isolated_aggregate_filtering = true
[berth]
{host_state}
decision_stream = false
"""


class ChangingCloud(RunningWorld):
    """Hosts of one cell in SQLite files, and their providers in a Placement that others use after it.

    Attributes:
        rng: Makes all choices.
        history: What was done, for the text of a failure.
        roots: Of each provider the compute node of its tree.
        sharing: Providers that share what they have.
        instances: Instances that hold something, of whoever claimed for them.
        freed_by_delete: Compute nodes from which DELETE took something since this set was cleared.
        changed_silently: Compute nodes that changed and may have the same generation, since this set was cleared.
        aim: The host that most changes are to.
        traits: The traits that they give and take.
    """

    def __init__(self, directory, placement_url, rng, *, quiet):
        """Describe a cloud; in a ``quiet`` one some hosts are down, and come up; no host goes.

        By default that a host went is seen a second late.
        """
        options = OPTIONS.format(host_state="" if quiet else "host_state_max_age = 0")
        world = World(HOSTS, 1, placement=placement_url, bus="memory", options=options, daemons=())
        super().__init__(world, directory)
        self.rng = rng
        self.quiet = quiet
        self.history = []
        self.roots = {}
        self.sharing = set()
        self.instances = set()
        self._moved = {}
        self._numbers = itertools.count(HOSTS)
        self.freed_by_delete, self.changed_silently = set(), set()
        self.aim = None
        self.traits = TRAITS
        # With others most queries are not for the mirror.
        self.flat = rng.random() < 0.7
        self._session = requests.Session()
        self._session.headers.update(HEADERS | {"OpenStack-API-Version": "placement 1.38"})

    def _start(self):
        self.callback(self._session.close)
        super()._start()
        self._api, self._cell = (self.engine(self.database(name)) for name in ("api", "cell1"))
        self.callback(self._remove_all)
        create_fleet(self.placement_url, list(map(self._provider, self.fleet.hosts)))
        for _ in range(4):
            self.claim_by_another()
        for host in self.fleet.hosts[::2] if self.quiet else ():
            self.set_status(host, disabled=host.number % 4 == 0, down=host.number % 4 == 2)
        self.changes = [
            *[self.change_trait] * 3,
            *[self.change_status] * 2,
            *[self.change_inventory] * 3,
            *[self.move_aggregates] * 2,
            *[self.set_aggregates_silently] * 2,
            *[self.replace_host] * 2,
            *[self.claim_by_another] * 2,
            self.delete_by_put,
            self.delete_by_delete,
            self.make_child,
            self.make_sharing,
            self.make_host,
            self.delete_host,
        ]

    # -- the hosts -------------------------------------------------------------------------------------------

    def _provider(self, host):
        rng = self.rng
        self.roots[host.uuid] = host.uuid
        inventories = {
            "VCPU": self._limits({"total": rng.choice(VCPUS), "allocation_ratio": rng.choice([1.0, 2.0])}),
            "MEMORY_MB": self._limits({"total": rng.choice(MEMORY), "reserved": rng.choice([0, 512])}),
        }
        if rng.random() < 0.9:
            inventories["DISK_GB"] = self._limits({"total": rng.choice(DISKS)})
        self.note(host.uuid, "has", inventories)
        traits = ["COMPUTE_NODE", "OWNER_NOVA", *random_part(rng, TRAITS)]
        return Provider(host.nodename, host.uuid, inventories, traits, self._aggregates_of(host.name))

    def _limits(self, inventory):
        """Add limits on what one allocation may have."""
        share = self.rng.random()
        if share < 0.1:
            inventory["max_unit"] = max(1, inventory["total"] // 2)
        elif share < 0.2:
            inventory["min_unit"] = max(1, inventory["total"] // 8)
        elif share < 0.3:
            inventory["step_size"] = max(1, inventory["total"] // 16)
        return inventory

    def _aggregates_of(self, name):
        return [each.uuid for each in self.fleet.aggregates if name in {host.name for host in each.hosts}]

    def aim_at(self, host, traits):
        """Let most changes that follow be to a host, and to these traits, if there are any."""
        self.aim, self.traits = host, traits or TRAITS

    def any_host(self):
        if self.aim in self.roots and self.rng.random() < 0.8:
            return self.aim
        return self.rng.choice([uuid for uuid in self.roots if self.roots[uuid] == uuid])

    def note(self, *words):
        self.history.append(" ".join(map(str, words)))

    # -- Placement -------------------------------------------------------------------------------------------

    def call(self, method, path, body=None, allowed=(409,), version=None):
        headers = {"OpenStack-API-Version": f"placement {version}"} if version else {}
        url = self.placement_url + path
        answer = self._session.request(method, url, json=body, timeout=30, headers=headers)
        assert answer.ok or answer.status_code in allowed, (method, path, body, answer.text)
        return answer

    def edit(self, provider, part, key, edit: Callable[[object], object]):
        """Write a part of a provider; what Placement refuses, as a class that is in use, stays as it is."""
        path = f"/resource_providers/{provider}/{part}"
        found = self.call("GET", path).json()
        body = {"resource_provider_generation": found["resource_provider_generation"]}
        return self.call("PUT", path, {**body, key: edit(found[key])}, allowed=(400, 409)).ok

    def set_trait(self, provider, trait, *, has):
        self.edit(
            provider, "traits", "traits", lambda now: sorted({*now, trait} if has else {*now} - {trait})
        )

    def change_trait(self):
        host, trait, has = self.any_host(), self.rng.choice(self.traits), self.rng.random() < 0.5
        self.set_trait(host, trait, has=has)
        self.note("trait", trait, "given to" if has else "taken from", host)

    def change_inventory(self):
        host, rng = self.any_host(), self.rng
        name = rng.choice(["VCPU", "MEMORY_MB", "DISK_GB"])
        field, values = rng.choice(
            [
                ("allocation_ratio", [0.5, 1.0, 2.0, 4.0]),
                ("reserved", [0, 1, 3, 1024]),
                ("total", [2, 4, 8, 40, 2048, 8192]),
                ("max_unit", [1, 2, 20, 1024, 4096, 10000]),
                ("min_unit", [1, 2, 512]),
                ("step_size", [1, 2, 512]),
            ]
        )
        value = rng.choice(values)
        done = self.edit(
            host,
            "inventories",
            "inventories",
            lambda now: {**now, name: {"total": 100, **now.get(name, {}), field: value}},
        )
        self.note(host, name, field, value, "" if done else "refused")

    def breaks_limits(self, host, amounts):
        """Return whether one allocation of these amounts is not what the host lets one be."""
        found = self.call("GET", f"/resource_providers/{host}/inventories").json()["inventories"]
        return any(
            amount % found[name]["step_size"]
            or not found[name]["min_unit"] <= amount <= found[name]["max_unit"]
            for name, amount in amounts.items()
            if amount and name in found
        )

    def make_child(self):
        """Put a device into a host, or move its disk or memory to a provider below, as for NUMA nodes."""
        host, child = self.any_host(), self.new_uuid()
        name = self.rng.choice(["VGPU"] if self.flat else ["VGPU", "DISK_GB", "PCPU", "MEMORY_MB"])
        inventories = {name: {"total": 10000 if name == "MEMORY_MB" else 8}}
        self._create(Provider(f"child {child}", child, inventories, (), (), host))
        self.roots[child] = self.roots[host]
        self.note("child with", name, "of", host, "is", child)

    def make_sharing(self):
        name = self.rng.choice(["IPV4_ADDRESS"] if self.flat else ["DISK_GB", "IPV4_ADDRESS"])
        uuid_ = self.new_uuid()
        aggregates = [self.rng.choice(self.fleet.aggregates).uuid]
        self._create(Provider(f"sharing {uuid_}", uuid_, {name: {"total": 500}}, [SHARES], aggregates))
        self.sharing.add(uuid_)
        self.note("provider shares", name, uuid_, aggregates)

    def _create(self, provider):
        create_fleet(self.placement_url, [provider])

    def new_uuid(self):
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))

    # -- what instances hold ---------------------------------------------------------------------------------

    def claim_by_another(self):
        host, consumer = self.any_host(), self.new_uuid()
        amounts = {"VCPU": self.rng.choice([1, 2, 4]), "MEMORY_MB": self.rng.choice([1024, 2048])}
        body = {
            "allocations": {host: {"resources": amounts}},
            "project_id": "p",
            "user_id": "u",
            "consumer_generation": None,
            "consumer_type": "INSTANCE",
        }
        if self.call("PUT", f"/allocations/{consumer}", body, allowed=(400, 409)).ok:
            self.instances.add(consumer)
            self.note("claim by another of", amounts, "on", host)

    def _take_instance(self):
        if not self.instances:
            return None
        instance = self.rng.choice(sorted(self.instances))
        self.instances.discard(instance)
        return instance

    def delete_by_put(self):
        """Delete an instance as nova does."""
        instance = self._take_instance()
        if instance:
            found = self.call("GET", f"/allocations/{instance}").json()
            names = ("project_id", "user_id", "consumer_generation")
            body = {"allocations": {}, "consumer_type": "INSTANCE", **{name: found[name] for name in names}}
            self.call("PUT", f"/allocations/{instance}", body)
            self.note("deleted by PUT", instance, "on", sorted(found["allocations"]))

    def delete_by_delete(self):
        """Delete an instance as after a failed build: no generation of a provider grows."""
        instance = self._take_instance()
        if instance:
            found = self.call("GET", f"/allocations/{instance}").json()["allocations"]
            self.call("DELETE", f"/allocations/{instance}")
            self.freed_by_delete |= {self.roots[each] for each in found if each in self.roots}
            self.note("deleted by DELETE", instance, "on", sorted(found))

    # -- nova ------------------------------------------------------------------------------------------------

    def _host_of(self, uuid_):
        return next((host for host in self.fleet.hosts if host.uuid == uuid_), None)

    def _write(self, statement):
        with self._cell.begin() as connection:
            connection.execute(statement.values(updated_at=schema.utcnow()))

    def set_status(self, host, **columns):
        """Write whether the service of a host is ``disabled`` or ``down``."""
        if "down" in columns:
            columns["forced_down"] = columns.pop("down")
        self._write(sa.update(schema.services).where(schema.services.c.host == host.name).values(columns))
        if "disabled" in columns and self.rng.random() < 0.8:  # the compute writes it, unless it is down
            self.set_trait(host.uuid, DISABLED, has=columns["disabled"])

    def change_status(self):
        """Disable, enable, stop or start the service of a host; a quiet cloud has one more of its hosts."""
        if self.quiet:
            self.open_host()
            return
        host, what = self._host_of(self.any_host()), self.rng.choice(["disabled", "down"])
        value = self.rng.random() < 0.5
        self.set_status(host, **{what: value})
        self.note(host.uuid, "is" if value else "is not", what)

    def open_host(self):
        """Enable and start the service of a host, and return the host."""
        host = self.rng.choice(self.fleet.hosts)
        self.set_status(host, down=False, disabled=False)
        self.set_trait(host.uuid, DISABLED, has=False)
        self.note(host.uuid, "is up and enabled")
        return host

    def move_aggregates(self):
        """Move a host to another zone, in or out of an aggregate: in Placement, and sometimes in nova later."""
        host = self._host_of(self.any_host())
        uuids = self._other_aggregates(host)
        self.edit(host.uuid, "aggregates", "aggregates", lambda _now: uuids)

    def _other_aggregates(self, host):
        """Draw aggregates for a host, and let nova have them, sometimes later."""
        rng = self.rng
        wanted = [rng.choice(self.fleet.aggregates[:3]), *random_part(rng, self.fleet.aggregates[3:])]
        self._moved[host.name] = [each.uuid for each in wanted]
        if rng.random() < 0.5:
            self.settle()
        self.note(
            host.uuid, "moved to", [each.name for each in wanted], "; not in nova yet:", list(self._moved)
        )
        return [each.uuid for each in wanted]

    def set_aggregates_silently(self):
        """Move a host to other aggregates, as clients of before 1.19 do: its generation does not grow."""
        host = self._host_of(self.any_host())
        path, uuids = f"/resource_providers/{host.uuid}/aggregates", self._other_aggregates(host)
        self.call("PUT", path, uuids, version="1.18")
        self.changed_silently.add(host.uuid)
        self.note("by a write that raises no generation")

    def replace_host(self):
        """Delete a host that has nothing, and create it again with its uuid, at the same generation if possible."""
        host = self._host_of(self.any_host())
        path = f"/resource_providers/{host.uuid}"
        known, inventories = self.call("GET", path).json(), self.call("GET", f"{path}/inventories").json()
        if not self.call("DELETE", path).ok:
            return
        traits = ["COMPUTE_NODE", "OWNER_NOVA", *random_part(self.rng, TRAITS)]
        aggregates = self._other_aggregates(host)
        self._create(Provider(host.nodename, host.uuid, inventories["inventories"], traits, aggregates))
        while self.call("GET", path).json()["generation"] < known["generation"]:
            self.edit(host.uuid, "traits", "traits", lambda now: now)
        self.changed_silently.add(host.uuid)
        self.note("deleted and created again", host.uuid, "with", traits, "at", known["generation"])

    def put(self, host, aggregates):
        """Let a host be in these aggregates and no others, in Placement and in nova."""
        self._moved[host.name] = uuids = [each.uuid for each in aggregates]
        self.edit(host.uuid, "aggregates", "aggregates", lambda _now: uuids)
        self.settle()

    def settle(self):
        """Bring nova's aggregates in line with Placement's."""
        numbers = {each.uuid: number for number, each in enumerate(self.fleet.aggregates, 1)}
        table = schema.aggregate_hosts
        with self._api.begin() as connection:
            for host, uuids in self._moved.items():
                connection.execute(sa.delete(table).where(table.c.host == host))
                rows = [{"host": host, "aggregate_id": numbers[each]} for each in uuids]
                connection.execute(sa.insert(table), rows)
        self._moved.clear()

    def make_host(self):
        host = Host(next(self._numbers), self.fleet.cells[0], "az1")
        with self._api.begin() as connection:
            cell_id = connection.execute(sa.select(schema.host_mappings.c.cell_id)).scalars().first()
            connection.execute(sa.insert(schema.host_mappings), {"host": host.name, "cell_id": cell_id})
        with self._cell.begin() as connection:
            connection.execute(sa.insert(schema.services), service_row(host))
            connection.execute(sa.insert(schema.compute_nodes), compute_node_row(host))
        self.fleet.hosts.append(host)
        self._create(self._provider(host))
        self.note("new host", host.uuid)

    def delete_host(self):
        """Delete a host that has nothing: its provider alone, or its rows too."""
        host = self._host_of(self.any_host())
        trees = [each for each, root in self.roots.items() if root == host.uuid]
        if len(trees) > 1 or len(self.fleet.hosts) < HOSTS // 2:
            return
        if not self.call("DELETE", f"/resource_providers/{host.uuid}").ok:
            return
        del self.roots[host.uuid]
        self.fleet.hosts.remove(host)
        self.note("provider deleted", host.uuid)
        if not self.quiet and self.rng.random() < 0.5:
            table, now = schema.compute_nodes, schema.utcnow()
            self._write(
                sa.update(table).where(table.c.uuid == host.uuid).values(deleted=table.c.id, deleted_at=now)
            )

    def _remove_all(self):
        for instance in self.instances:
            self.call("DELETE", f"/allocations/{instance}", allowed=(404,))
        listed = self.call("GET", "/resource_providers").json()["resource_providers"]
        for each in sorted(listed, key=lambda each: each["parent_provider_uuid"] is None):
            for consumer in self.call("GET", f"/resource_providers/{each['uuid']}/allocations").json()[
                "allocations"
            ]:
                self.call("DELETE", f"/allocations/{consumer}", allowed=(404,))
            self.call("DELETE", f"/resource_providers/{each['uuid']}")
