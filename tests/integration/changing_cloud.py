"""A small random cloud that changes: what operators, computes and other clients do to Placement and nova's databases."""

from functools import partial
import itertools

import sqlalchemy as sa

from scheduler.nova_db import schema
from tools.rig.draw import TRAITS, Kinds, draw, draw_host
from tools.rig.fleet import DISABLED, SHARES, Host, compute_node_row, service_row
from tools.rig.load import random_uuid
from tools.rig.providers import PlacementAdmin, Provider, create_fleet
from tools.rig.refusing_cloud import DrawnCloud
from tools.rig.rows import set_service

HOSTS = 8
#: What a cloud begins with, and what is asked of it: the rest comes by changes.
KINDS = Kinds(
    (HOSTS, HOSTS),
    frozenset({"trees", "pools", "states", "groups"}),
    also=frozenset({"forced", "memory steps"}),
    few=(0.03, 0.08),
)

OPTIONS = """\
[scheduler]
max_attempts = 100
enable_isolated_aggregate_filtering = true
[berth]
{host_state}
decision_stream = false
"""
#: Fields of inventories, and the values that they get.
FIELDS = {
    "allocation_ratio": [0.5, 1.0, 2.0, 4.0],
    "reserved": [0, 1, 3, 1024],
    "total": [2, 4, 8, 40, 2048, 8192],
    "max_unit": [1, 2, 20, 1024, 4096, 10000],
    "min_unit": [1, 2, 512],
    "step_size": [1, 2, 512],
}


class Changes:
    """Changes of the providers of a fleet in Placement.

    Attributes:
        admin: Writes to Placement.
        history: What was done, for the text of a failure.
        roots: Of each provider the compute node of its tree.
        sharing: Providers that share what they have.
        instances: Instances that hold something, of whoever claimed for them.
        freed_by_delete: Compute nodes from which DELETE took something since this set was cleared.
        changed_silently: Compute nodes that changed and may have the same generation, since this set was cleared.
        aim: The host that most changes are to.
        traits: The traits that they give and take.
        fields: The fields of inventories that they change.
    """

    def __init__(self, placement_url, rng, fleet, kinds=KINDS):
        self.admin = PlacementAdmin(placement_url)
        self.rng, self.fleet, self.kinds = rng, fleet, kinds
        self.history = []
        self.roots = {each.uuid: each.parent or each.uuid for each in fleet.providers()}
        self.sharing = set()
        self.instances = {each.uuid for each in fleet.placed}
        self.freed_by_delete, self.changed_silently = set(), set()
        self.aim, self.traits, self.fields = None, TRAITS, FIELDS
        # With others most queries are not for the mirror.
        self.flat = rng.random() < 0.7
        self._numbers = itertools.count(len(fleet.hosts))

    def note(self, *words):
        self.history.append(" ".join(map(str, words)))

    def aim_at(self, host, traits):
        """Let most changes that follow be to a host, and to these traits, if there are any."""
        self.aim, self.traits = host, traits or TRAITS

    def any_host(self):
        aimed = [host for host in self.fleet.hosts if host.uuid == self.aim]
        return aimed[0] if aimed and self.rng.random() < 0.8 else self.rng.choice(self.fleet.hosts)

    # -- hosts -----------------------------------------------------------------------------------------------

    def change_trait(self):
        host, trait, has = self.any_host(), self.rng.choice(self.traits), self.rng.random() < 0.5
        self.admin.set_trait(host.uuid, trait, has=has)
        self.note("trait", trait, "given to" if has else "taken from", host.uuid)

    def change_inventory(self):
        host, rng = self.any_host(), self.rng
        name, field = rng.choice(["VCPU", "MEMORY_MB", "DISK_GB"]), rng.choice([*self.fields])
        value = rng.choice(self.fields[field])

        def change(now):
            return {**now, name: {"total": 100, **now.get(name, {}), field: value}}

        done = self.admin.edit(host.uuid, "inventories", change)
        self.note(host.uuid, name, field, value, "" if done else "refused")

    def breaks_limits(self, uuid_, amounts):
        """Return whether one allocation of these amounts is not what the host lets one be."""
        found = self.admin.read(f"/resource_providers/{uuid_}/inventories")["inventories"]
        return any(
            amount % found[name]["step_size"]
            or not found[name]["min_unit"] <= amount <= found[name]["max_unit"]
            for name, amount in amounts.items()
            if amount and name in found
        )

    def move_aggregates(self):
        """Move a host to another zone, in or out of an aggregate."""
        host = self.any_host()
        uuids = self.other_aggregates(host)
        self.admin.edit(host.uuid, "aggregates", lambda _now: uuids)

    def other_aggregates(self, host):
        """Draw aggregates for a host."""
        zones, others = self.fleet.aggregates[:3], self.fleet.aggregates[3:]
        wanted = [self.rng.choice(zones), *self.rng.sample(others, self.rng.randrange(len(others) + 1))]
        self.note(host.uuid, "moved to", [each.name for each in wanted])
        return [each.uuid for each in wanted]

    def set_aggregates_silently(self):
        """Move a host to other aggregates, as clients of before 1.19 do: its generation does not grow."""
        host = self.any_host()
        uuids = self.other_aggregates(host)
        self.admin.call("PUT", f"/resource_providers/{host.uuid}/aggregates", uuids, version="1.18")
        self.changed_silently.add(host.uuid)
        self.note("by a write that raises no generation")

    def replace_host(self):
        """Delete a host that has nothing, and create it again with its uuid, at the same generation if possible."""
        host = self.any_host()
        path = f"/resource_providers/{host.uuid}"
        known, inventories = self.admin.read(path), self.admin.read(f"{path}/inventories")["inventories"]
        if not self.admin.call("DELETE", path, allowed=(409,)).ok:
            return
        traits = ["COMPUTE_NODE", "OWNER_NOVA", *self.rng.sample(TRAITS, self.rng.randrange(len(TRAITS) + 1))]
        aggregates = self.other_aggregates(host)
        create_fleet(self.admin.url, [Provider(host.nodename, host.uuid, inventories, traits, aggregates)])
        while self.admin.read(path)["generation"] < known["generation"]:
            # a write of the same traits would raise no generation
            self.admin.edit(host.uuid, "traits", lambda now: sorted({*now} ^ {"HW_CPU_X86_MMX"}))
        self.changed_silently.add(host.uuid)
        self.note("deleted and created again", host.uuid, "with", traits, "at", known["generation"])

    def make_host(self):
        """Add a host, and return it."""
        place = Host(next(self._numbers), self.fleet.cells[0], "az1")
        host = draw_host(self.rng, place, self.kinds)
        self.fleet.hosts.append(host)
        self.roots[host.uuid] = host.uuid
        create_fleet(self.admin.url, host.providers())
        self.note("new host", host.uuid)
        return host

    def delete_host(self):
        """Delete the provider of a host that has nothing, and return the host; None: it has something."""
        host = self.any_host()
        trees = [each for each, root in self.roots.items() if root == host.uuid]
        if len(trees) > 1 or len(self.fleet.hosts) < HOSTS // 2:
            return None
        if not self.admin.call("DELETE", f"/resource_providers/{host.uuid}", allowed=(409,)).ok:
            return None
        del self.roots[host.uuid]
        self.fleet.hosts.remove(host)
        self.fleet.placed = [each for each in self.fleet.placed if each.host != host]
        self.note("provider deleted", host.uuid)
        return host

    # -- other providers -------------------------------------------------------------------------------------

    def make_child(self):
        """Put a device into a host, or move its disk or memory to a provider below, as for NUMA nodes."""
        host, child = self.any_host(), self.new_uuid()
        name = self.rng.choice(["VGPU"] if self.flat else ["VGPU", "DISK_GB", "PCPU", "MEMORY_MB"])
        inventories = {name: {"total": 10000 if name == "MEMORY_MB" else 8}}
        create_fleet(self.admin.url, [Provider(f"child {child}", child, inventories, (), (), host.uuid)])
        self.roots[child] = host.uuid
        self.note("child with", name, "of", host.uuid, "is", child)

    def make_sharing(self):
        name = self.rng.choice(["IPV4_ADDRESS"] if self.flat else ["DISK_GB", "IPV4_ADDRESS"])
        uuid_ = self.new_uuid()
        aggregates = [self.rng.choice(self.fleet.aggregates).uuid]
        shared = {name: {"total": 500}}
        create_fleet(self.admin.url, [Provider(f"sharing {uuid_}", uuid_, shared, [SHARES], aggregates)])
        self.sharing.add(uuid_)
        self.note("provider shares", name, uuid_, aggregates)

    def new_uuid(self):
        return random_uuid(self.rng)

    # -- what instances hold ---------------------------------------------------------------------------------

    def claim_by_another(self):
        host, consumer = self.any_host(), self.new_uuid()
        amounts = {"VCPU": self.rng.choice([1, 2, 4]), "MEMORY_MB": self.rng.choice([1024, 2048])}
        if self.admin.allocate(consumer, {host.uuid: amounts}):
            self.instances.add(consumer)
            self.note("claim by another of", amounts, "on", host.uuid)

    def _take_instance(self):
        instance = self.rng.choice(sorted(self.instances)) if self.instances else None
        self.instances.discard(instance)
        return instance

    def delete_by_put(self):
        """Delete an instance as nova does."""
        if instance := self._take_instance():
            self.note("deleted by PUT", instance, "on", sorted(self.admin.release(instance)))

    def delete_by_delete(self):
        """Delete an instance as after a failed build: no generation of a provider grows."""
        if instance := self._take_instance():
            path = f"/allocations/{instance}"
            found = self.admin.read(path)["allocations"]
            self.admin.call("DELETE", path, allowed=(404,))
            self.freed_by_delete |= {self.roots[each] for each in found if each in self.roots}
            self.note("deleted by DELETE", instance, "on", sorted(found))


class NovaChanges(Changes):
    """Changes that nova's databases see as well, of aggregates sometimes later.

    A ``quiet`` cloud has one more of its hosts at each change of a status; no host goes.
    """

    def __init__(self, cloud, rng, kinds, *, quiet):
        super().__init__(cloud.placement_url, rng, cloud.fleet, kinds)
        self.cloud, self.quiet, self._moved = cloud, quiet, {}

    @property
    def all(self):
        """The changes, as often as they are drawn next to each other."""
        return [
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

    def set_status(self, host, **columns):
        """Write whether the service of a host is ``disabled`` or ``forced_down``."""
        set_service(self.cloud, host, **columns)
        if "disabled" in columns and self.rng.random() < 0.8:  # the compute writes it, unless it is down
            self.admin.set_trait(host.uuid, DISABLED, has=columns["disabled"])

    def change_status(self):
        """Disable, enable, stop or start the service of a host; a quiet cloud has one more of its hosts."""
        if self.quiet:
            self.open_host()
            return
        host, what = self.any_host(), self.rng.choice(["disabled", "forced_down"])
        value = self.rng.random() < 0.5
        self.set_status(host, **{what: value})
        self.note(host.uuid, "is" if value else "is not", what)

    def open_host(self):
        """Enable and start the service of a host, and return the host."""
        host = self.rng.choice(self.fleet.hosts)
        self.set_status(host, forced_down=False, disabled=False)
        self.admin.set_trait(host.uuid, DISABLED, has=False)
        self.note(host.uuid, "is up and enabled")
        return host

    def other_aggregates(self, host):
        """Draw aggregates for a host, and let nova have them, sometimes later."""
        self._moved[host.name] = uuids = super().other_aggregates(host)
        if self.rng.random() < 0.5:
            self.settle()
        self.note("not in nova yet:", list(self._moved))
        return uuids

    def put(self, host, aggregates):
        """Let a host be in these aggregates and no others, in Placement and in nova."""
        self._moved[host.name] = uuids = [each.uuid for each in aggregates]
        self.admin.edit(host.uuid, "aggregates", lambda _now: uuids)
        self.settle()

    def settle(self):
        """Bring nova's aggregates in line with Placement's."""
        numbers = {each.uuid: number for number, each in enumerate(self.fleet.aggregates, 1)}
        table = schema.aggregate_hosts
        with self.cloud.connection("api") as connection:
            for host, uuids in self._moved.items():
                connection.execute(sa.delete(table).where(table.c.host == host))
                rows = [{"host": host, "aggregate_id": numbers[each]} for each in uuids]
                connection.execute(sa.insert(table), rows)
        self._moved.clear()

    def make_host(self):
        host = super().make_host()
        with self.cloud.connection("api") as connection:
            cell_id = connection.execute(sa.select(schema.host_mappings.c.cell_id)).scalars().first()
            connection.execute(sa.insert(schema.host_mappings), {"host": host.name, "cell_id": cell_id})
        with self.cloud.connection(host.cell.name) as connection:
            connection.execute(sa.insert(schema.services), service_row(host))
            connection.execute(sa.insert(schema.compute_nodes), compute_node_row(host))
        return host

    def delete_host(self):
        """Delete the provider of a host that has nothing, alone or with its rows."""
        host = super().delete_host()
        if host and not self.quiet and self.rng.random() < 0.5:
            table, now = schema.compute_nodes, schema.utcnow()
            gone = sa.update(table).where(table.c.uuid == host.uuid)
            with self.cloud.connection(host.cell.name) as connection:
                connection.execute(gone.values(deleted=table.c.id, deleted_at=now, updated_at=now))
        return host


class ChangingCloud(DrawnCloud):
    """Hosts of one cell in SQLite files, and their providers in a Placement that others use after it.

    Attributes:
        changes: What others do.
    """

    def __init__(self, directory, placement, rng, *, quiet, kinds=KINDS):
        """Describe a cloud; in a ``quiet`` one some hosts are down, and come up; no host goes.

        By default that a host went is seen a second late.
        """
        options = OPTIONS.format(host_state="" if quiet else "host_state_max_age = 0")
        super().__init__(directory, placement, rng, partial(draw, kinds=kinds), cells=1, options=options)
        self.quiet, self._kinds = quiet, kinds

    def _start(self):
        super()._start()
        self.changes = NovaChanges(self, self.rng, self._kinds, quiet=self.quiet)
        for host in self.fleet.hosts[::2] if self.quiet else ():
            self.changes.set_status(host, disabled=host.number % 4 == 0, forced_down=host.number % 4 == 2)
