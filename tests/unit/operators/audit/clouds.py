"""A small cloud in plain values: ``Cloud().host("a").instance("i", "a").holds("i", "a")``."""

from dataclasses import replace
from datetime import datetime, timedelta

from scheduler.operators.audit.compare import ConsumerCheck, Topology
from scheduler.operators.audit.values import (
    ConsumerRecords,
    InstanceRecord,
    MigrationRecord,
    NodeRecord,
)
from scheduler.placement.providers import ListedProvider

NOW = datetime(2026, 1, 1, 12, 0)
OLD = NOW - timedelta(days=1)
NEW = NOW - timedelta(minutes=1)
GRACE = timedelta(hours=1)


class Cloud:
    """Each host is a compute node whose UUID is ``<name>-uuid``; the cell is ``c1`` unless told otherwise."""

    def __init__(self):
        self.topology = Topology()
        self.records = {}
        self.holdings = {}

    def host(self, name, *, cell="c1", node=None):
        uuid = f"{node or name}-uuid"
        self.topology.add_nodes([NodeRecord(uuid, cell, name, node or name)])
        self.topology.providers[uuid] = ListedProvider(uuid, 0, uuid, node or name)
        return self

    def child(self, name, host):
        self.topology.providers[name] = ListedProvider(name, 0, f"{host}-uuid", name)
        return self

    def sharing(self, name):
        self.topology.providers[name] = ListedProvider(name, 0, name, name)
        self.topology.sharing |= {name}
        return self

    def instance(self, uuid, host, *, cell="c1", node="", changed=OLD, **columns):
        record = InstanceRecord(uuid, cell, host, host if node == "" else node, "active", changed)
        record = replace(record, **columns)
        one = self._records(uuid)
        self.records[uuid] = replace(one, instances=(*one.instances, record))
        return self

    def migration(self, uuid, instance, source, dest, *, status, kind="migration", cell="c1", changed=OLD):
        move = MigrationRecord(uuid, instance, cell, kind, status, (source, source), (dest, dest), changed)
        for consumer in (uuid, instance):
            one = self._records(consumer)
            self.records[consumer] = replace(one, migrations=(*one.migrations, move))
        return self

    def deleted(self, instance, at=OLD):
        """nova has deleted an instance, at a time."""
        for uuid, one in self.records.items():
            moves = [
                replace(move, instance_gone=True, gone_since=at) if move.instance == instance else move
                for move in one.migrations
            ]
            self.records[uuid] = replace(one, migrations=tuple(moves))
        self.records[instance] = replace(self._records(instance), deleted_at=at)
        return self

    def mapping(self, uuid, changed=OLD):
        self.records[uuid] = replace(self._records(uuid), mapped_at=changed)
        return self

    def build_request(self, uuid, at=OLD):
        self.records[uuid] = replace(self._records(uuid), build_requested=True, build_requested_at=at)
        return self

    def holds(self, consumer, *providers, **amounts):
        held = self.holdings.setdefault(consumer, {})
        for name in providers:
            uuid = f"{name}-uuid" if f"{name}-uuid" in self.topology.providers else name
            held[uuid] = amounts or {"VCPU": 2}
        return self

    def verdict(self, consumer):
        judge = ConsumerCheck(self.topology, NOW, GRACE)
        return judge.consumer(self.holdings.get(consumer, {}), self._records(consumer))

    def _records(self, uuid):
        return self.records.get(uuid, ConsumerRecords(uuid))
