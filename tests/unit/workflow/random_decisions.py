"""Random small clouds and requests, each decided by a manager, by a plan and by a shadow."""

from dataclasses import fields, replace
import random

from scheduler.errors import BerthError
from scheduler.manager import SchedulerManager
from scheduler.operators.plan.dry_run import dry_run
from scheduler.operators.shadow.copies import Copy
from scheduler.operators.shadow.decisions import ShadowManager
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.parts import Parts
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.rpc.context import RequestContext
from scheduler.rpc.notifications import Notifications
from scheduler.stream.decision_stream import NoStream
from scheduler.workflow.candidate_hosts import CandidateHosts
from tests.builders import make_host, uuid_of
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor
from tests.unit.test_manager import FakeHosts, FakePlacement
from tools.rig.draw import Kinds, draw, draw_request
from tools.rig.fleet import Cell, service_row
from tools.rig.memory import host_rows
from tools.simulation.placement import Provider

RULES = [*FILTERS, "DifferentHostFilter", "AggregateInstanceExtraSpecsFilter", "PciPassthroughFilter"]
#: The model of Placement knows no providers that share.
KINDS = Kinds(
    (2, 9), frozenset({"pools"}), also=frozenset({"forced", "hints", "cells", "soft"}), few=(0.02, 0.05, 0.15)
)
CELLS = Cell("cell1", ""), Cell("cell2", "")


def built(fleet):
    """The hosts of a fleet as builders."""
    for host, row in zip(fleet.hosts, host_rows(fleet), strict=True):
        builder = make_host(host.name).set(**{each.name: getattr(row, each.name) for each in fields(row)})
        for aggregate in fleet.aggregates:
            if host in aggregate.hosts:
                builder.aggregate(aggregate.name, aggregate.metadata)
        yield builder.service(**service_row(host))


class Cloud(MadeCloud):
    """A random cloud."""

    def __init__(self, rng):
        self.fleet = draw(rng, CELLS, KINDS)
        self.fleet.placed = [replace(each, uuid=uuid_of(f"vm{each.number}")) for each in self.fleet.placed]
        hosts = {host.columns["host"]: host for host in built(self.fleet)}
        options = {"host_subset_size": rng.choice([1, 1, 3]), "shuffle_best_same_weighed_hosts": True}
        super().__init__(*hosts.values(), enabled_filters=RULES, **options)
        for each in self.fleet.placed:
            self.put(f"vm{each.number}", each.host.name, flavor("there", 2, ram=2048, disk=10))
            hosts[each.host.name].holding(each.uuid)

    def _providers(self, used):
        names = {each.uuid: uuid_of(f"aggregate {each.name}") for each in self.fleet.aggregates}
        places = {host.uuid: host.name for host in self.fleet.hosts}
        for each in self.fleet.providers():
            spent = used[places[each.uuid]][:3] if each.uuid in places else ()
            yield Provider(
                each.uuid,
                each.inventories,
                set(each.traits),
                {names[uuid] for uuid in each.aggregates},
                each.parent or "",
                dict(zip(("VCPU", "MEMORY_MB", "DISK_GB"), spent, strict=False)),
            )

    def snapshot(self):
        made = super().snapshot()
        self.placement = made.mirror._client
        return replace(made, candidates=CandidateSource(self.placement))


class Claims(FakePlacement):
    """Grants claims as Placement would, within the capacity of providers."""

    def __init__(self, cloud):
        super().__init__(cloud.hosts)
        self.cloud = cloud
        self.used = {}
        self.get = cloud.placement.get
        self.fetch = CandidateSource(cloud.placement).fetch

    def answer(self, request):
        amounts = request.candidate.allocations[request.candidate.root]["resources"]
        used = self.used.setdefault(request.candidate.root, {})
        model = self.cloud.placement
        provider = model.providers[request.candidate.root]
        if not all(
            model.fits(provider, name, used.get(name, 0) + amount) for name, amount in amounts.items()
        ):
            return Written(Outcome.REFUSED, reason="no room", resource_class="VCPU")
        used |= {name: used.get(name, 0) + amount for name, amount in amounts.items()}
        return Written(Outcome.DONE)


class Decisions:
    """One random request in one random cloud, and what each decider chooses for it."""

    def __init__(self, seed, instances=None):
        self.seed = seed
        rng = random.Random(seed)
        self.cloud = Cloud(rng)
        self.snapshot = self.cloud.snapshot()
        self.request = draw_request(rng, self.cloud.fleet, KINDS)
        count = instances or min(self.request.count, 3)
        self.uuids = [uuid_of(f"new{number}") for number in range(count)]

    def spec(self):
        """A new RequestSpec, as a decision changes the one that it gets."""
        return self.request.spec(self.uuids)

    def plan(self):
        """The service hosts that a plan chooses."""
        cloud = PlannedCloud(self.snapshot)
        decision = self._decided(lambda: cloud.decide(self.spec(), self.uuids))
        if isinstance(decision, str):
            return decision
        return [cloud.host(each.row) for each in decision.chosen]

    def dry_run(self):
        """The hosts and alternates of a dry run."""
        return self._decided(lambda: dry_run(PlannedCloud(self.snapshot), self.spec()))

    def make_shadow(self):
        return ShadowManager(self.snapshot.conf, Notifications(()), self._parts())

    def copy(self):
        return Copy(self.context, self.spec(), tuple(self.uuids), 0.0)

    def shadow_hosts(self):
        """The hosts that a shadow chooses."""
        decision = self._decided(lambda: self.make_shadow().decide(self.copy()))
        if isinstance(decision, str):
            return decision
        return [self._host(choice.node) for choice in decision.choices]

    def manager(self):
        """The hosts and alternates of the reply of a manager."""
        manager = SchedulerManager(self.snapshot.conf, Notifications(()), self._parts())
        reply = self._decided(
            lambda: manager.select_destinations(self.context, self.spec(), self.uuids, True, True)
        )
        if isinstance(reply, str):
            return reply
        return [[each.service_host for each in some] for some in reply]

    @property
    def world(self):
        """What a manager reads."""
        return SchedulerManager(self.snapshot.conf, Notifications(()), self._parts()).world

    def _decided(self, decide):
        random.seed(self.seed)
        try:
            return decide()
        except BerthError as error:
            return type(error).__name__

    @property
    def context(self):
        return RequestContext(user_id="u", project_id="p", request_id=f"req-{self.seed}")

    def _host(self, node):
        return self.snapshot.table.rows[self.snapshot.table.row_of_uuid[node]].host

    def _parts(self):
        claimer = Claims(self.cloud)
        mirror = CandidateMirror(
            self.cloud.placement, lambda: 8.0, totals=self.snapshot.mirror.limits._totals
        )
        mirror.read()
        hosts = FakeHosts(self.cloud.hosts)
        return Parts(
            hosts=hosts,
            placement=claimer,
            candidates=claimer,
            candidate_hosts=CandidateHosts(self.snapshot.conf, hosts, claimer, None, None),
            claims=claimer,
            mirror=mirror,
            stream=NoStream(),
        )
