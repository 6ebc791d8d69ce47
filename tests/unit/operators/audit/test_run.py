"""The order of reads, what is confirmed, and what is held at once; Placement and the databases are in memory."""

from contextlib import closing
from datetime import timedelta

import pytest

from scheduler.operators.audit.command import Audit
from scheduler.operators.audit.readers import SHARING, PlacementReader
from scheduler.operators.audit.values import (
    ConsumerRecords,
    InstanceRecord,
    Kind,
    NodeRecord,
)
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.reply import Reply
from tests.support.placement import Placement, Provider
from tests.unit.operators.audit.clouds import NOW, OLD
from tools.simulation.placement import Consumer


class FakeNova:
    """One cell; the UUID of a compute node is the name of its host."""

    def __init__(self, *hosts):
        self.hosts = list(hosts)
        self.on = {}
        self.without_service = set()
        self.largest = 0

    def load_cells(self):
        pass

    def nodes(self):
        yield self._nodes(self.hosts)

    def nodes_at(self, hosts):
        return self._nodes(host for host in hosts if host in self.hosts)

    def instances(self):
        yield [self._record(uuid) for uuid in self.on]

    def records(self, uuids):
        self.largest = max(self.largest, len(uuids))
        return {
            uuid: ConsumerRecords(uuid, (self._record(uuid),) if uuid in self.on else ()) for uuid in uuids
        }

    def _record(self, uuid):
        host = self.on[uuid]
        return InstanceRecord(uuid, "c1", host, host, "active", OLD)

    def _nodes(self, hosts):
        return [NodeRecord(host, "c1", host, host, host not in self.without_service) for host in hosts]


def make_provider(host, vcpus=100):
    return Provider(host, {"VCPU": {"total": vcpus}})


class Rig:
    """``largest``: of how many providers the state was read at once."""

    def __init__(self, *hosts):
        self.placement = Placement(*map(make_provider, hosts))
        self.largest = 0
        self.nova = FakeNova(*hosts)
        self.slept = []
        self.meanwhile = lambda: None

    def instance(self, uuid, host, *held):
        self.nova.on[uuid] = host
        self.holds(uuid, *(held or [host]))

    def holds(self, uuid, *hosts):
        self.placement.rows[uuid] = {host: {"VCPU": 1} for host in hosts}
        self.placement.consumers[uuid] = Consumer(7, "p", "u", created_by=0)

    def run(self, **settings):
        with closing(PlacementReader(self.placement, 1)) as reader:
            read, reader.states = reader.states, lambda providers: read(self._noted(providers))
            return Audit(reader, self.nova, **settings, sleep=self._sleep, now=lambda: NOW).run()

    def _noted(self, providers):
        self.largest = max(self.largest, len(providers))
        return providers

    def _sleep(self, seconds):
        self.slept.append(seconds)
        self.meanwhile()


@pytest.fixture
def rig():
    return Rig("a", "b", "c")


def kinds(report):
    return {one.subject: one.kind for one in report.findings}


def test_a_cloud_in_order_is_read_once_and_not_waited_for(rig):
    rig.instance("i", "a")
    report = rig.run()
    assert (report.findings, rig.slept) == ([], [])


def test_a_finding_is_read_again_after_the_delay(rig):
    rig.holds("gone", "a")
    assert kinds(rig.run(recheck_after=7.0)) == {"gone": Kind.NO_INSTANCE}
    assert rig.slept == [7.0]


def test_a_compute_node_that_shares_its_disk_is_a_host_all_the_same(rig):
    rig.placement.providers["a"].traits.add(SHARING)
    rig.instance("i", "a")
    assert rig.run().findings == []


def test_a_consumer_that_moved_meanwhile_is_judged_by_the_second_read(rig):
    rig.instance("i", "a", "b")
    rig.meanwhile = lambda: rig.instance("i", "c", "c")
    assert rig.run().findings == []


def test_a_consumer_on_two_pages_is_one_finding(rig):
    rig.instance("i", "a", "a", "b")
    assert kinds(rig.run(page=1)) == {"i": Kind.TWO_HOSTS}
    assert len(rig.run(page=1).findings) == 1


def test_only_what_both_reads_show_of_a_provider_is_reported(rig):
    rig.instance("i", "a")
    rig.placement.providers["a"] = make_provider("a", 0)
    rig.meanwhile = lambda: rig.placement.providers.update(a=make_provider("a", 1))
    assert rig.run().findings == []


def test_a_host_that_is_new_at_the_second_read_is_known_then(rig):
    rig.instance("i", "new", "a")

    def meanwhile():
        rig.holds("i", "new")
        rig.placement.providers["new"] = make_provider("new")
        rig.nova.hosts.append("new")

    rig.meanwhile = meanwhile
    assert rig.run().findings == []


def test_pages_bound_what_is_read_at_once():
    rig = Rig(*(f"host{number}" for number in range(25)))
    for number in range(25):
        rig.instance(f"i{number}", f"host{number}")
        rig.holds(f"gone{number}", f"host{number}")
    assert len(rig.run(page=10).findings) == 25
    assert (rig.largest, rig.nova.largest) == (10, 25)


def test_a_provider_that_cannot_be_read_ends_the_audit(rig):
    rig.instance("i", "a")
    rig.placement.failures["/resource_providers/a/usages"] = PlacementUnreachable("no answer")
    with pytest.raises(PlacementUnreachable):
        rig.run()


def test_a_host_without_a_provider_has_instances_without_allocation(rig):
    rig.instance("i", "a")
    del rig.placement.providers["a"]
    rig.placement.consumers.clear()
    assert kinds(rig.run()) == {"i": Kind.NO_ALLOCATION}


def test_so_has_a_host_whose_provider_was_removed_during_the_audit(rig):
    rig.instance("i", "a")
    rig.placement.failures["/resource_providers/a/usages"] = Reply(404)
    rig.placement.consumers.clear()
    assert kinds(rig.run()) == {"i": Kind.NO_ALLOCATION}


def test_grace_is_a_setting(rig):
    rig.instance("i", "a", "b")
    assert rig.run(grace=timedelta(days=2)).findings == []


def test_findings_beyond_the_limit_are_counted(rig):
    for uuid in ("i", "j", "k"):
        rig.holds(uuid, "a")
    report = rig.run(limit=1)
    assert (len(report.findings), report.left_out) == (1, 2)


def test_a_compute_node_without_a_service_is_found_and_one_whose_service_comes_is_not():
    rig = Rig("a", "b", "c")
    rig.nova.without_service = {"b", "c"}
    rig.holds("lost", "a")
    rig.meanwhile = lambda: rig.nova.without_service.discard("c")
    found = [one for one in rig.run().findings if one.kind is Kind.NO_SERVICE]
    assert [(one.subject, one.host) for one in found] == [("b", "b")]
    assert "Only if the host is gone" in found[0].next_step
