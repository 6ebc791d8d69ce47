"""How hosts change between the decision of a shadow and the moment at which the other choice is seen."""

import itertools

import pytest

from scheduler.operators.shadow.decisions import Changes
from tests.builders import make_table
from tests.unit.workflow.random_decisions import Decisions

#: A cloud in which one instance gets a host, of several.
SEED = 11


class Followed:
    """A request that the shadow has decided, and for which another host was chosen; then time goes by."""

    def __init__(self):
        self.one = Decisions(SEED, instances=1)
        self._shadow = self.one.make_shadow()
        self._decision = self._shadow.decide(self.one.copy())
        (self._instance,) = self._decision.instance_uuids
        (mine,) = self._decision.choices
        self.chosen, self.other = [host for host in self.nodes if host != mine.node][:2]
        self._shadow.follow(self._decision, {self._instance: self.chosen})

    @property
    def nodes(self):
        return {host.columns["uuid"]: host for host in self.one.cloud.hosts}

    def report(self, node, **more):
        """Let a compute report that more is taken of it, by the names of nova's columns."""
        host = self.nodes[node]
        row = host.row()
        host.set(**{name: getattr(row, name) + amount for name, amount in more.items()})
        self._shadow.hosts.table = make_table(self.one.cloud.hosts)

    def report_own(self, *, settled=True, **more):
        """Let the compute of the chosen host report the instance, which is settled before the second reading."""
        placement = self._shadow.hosts.pending.get(self._instance)
        names = ("free_ram_mb", "free_disk_mb", "vcpus_used", "num_instances", "num_io_ops")
        taken = dict(zip(names, placement.amounts.tolist(), strict=True))
        self.report(self.chosen, **{name: taken[name] + more.get(name, 0) for name in names})
        hosts, readings = self._shadow.hosts, itertools.count(1)
        read = hosts.snapshot

        def read_and_settle(max_age):
            if settled or next(readings) == 2:
                hosts.pending.settle([placement])
            return read(max_age)

        hosts.snapshot = read_and_settle

    @property
    def changes(self):
        return self._shadow.changes_since(self._decision, {self._instance: self.chosen})


@pytest.fixture
def followed():
    return Followed()


def test_its_own_instance_is_no_change(followed):
    assert followed.changes.freer == frozenset()
    assert followed.changes.fuller <= {followed.chosen}
    followed.report_own()
    assert followed.changes.freer == frozenset()
    assert followed.changes.fuller <= {followed.chosen}


def test_its_own_instance_does_not_count_twice_while_its_report_is_read(followed):
    followed.report_own(settled=False, num_instances=-1, num_io_ops=-1)
    assert followed.changes == Changes(freer={followed.chosen})


def test_the_end_of_its_own_build_is_no_change(followed):
    followed.report_own(num_io_ops=-1)
    assert followed.changes == Changes()


@pytest.mark.parametrize(
    "taken",
    [
        {"free_ram_mb": -512, "vcpus_used": 1, "num_instances": 1},
        {"free_disk_mb": -1},
        {"num_io_ops": 1},
    ],
)
def test_what_others_get_and_give_back_changes_hosts(followed, taken):
    followed.report_own(num_io_ops=-1)
    followed.report(followed.other, **taken)
    assert followed.changes == Changes(fuller={followed.other})
    followed.report(followed.other, **{name: -2 * amount for name, amount in taken.items()})
    assert followed.changes == Changes(freer={followed.other})


def test_what_was_on_the_chosen_host_may_end_while_its_own_instance_is_reported(followed):
    followed.report_own(num_instances=-1, num_io_ops=-1)
    assert followed.changes == Changes(freer={followed.chosen})


def test_a_host_that_is_new_or_gone_is_no_change(followed):
    followed.report_own(num_io_ops=-1)
    followed.one.cloud.hosts.remove(followed.nodes[followed.other])
    followed.report(followed.chosen)
    assert followed.changes == Changes()
