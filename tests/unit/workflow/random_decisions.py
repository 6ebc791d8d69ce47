"""Random small clouds and requests, each decided by a manager, by a plan and by a shadow."""

from dataclasses import replace
import random

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.manager import SchedulerManager
from scheduler.operators.plan.dry_run import dry_run
from scheduler.operators.shadow.copies import Copy
from scheduler.operators.shadow.decisions import ShadowManager
from scheduler.operators.snapshot.planned_cloud import PlannedCloud
from scheduler.operators.snapshot.planned_world import PlannedWorld
from scheduler.parts import Parts, make_driver
from scheduler.placement.candidates import CandidateSource, FetchCandidates
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.rpc.context import RequestContext
from scheduler.rpc.notifications import Notifications
from scheduler.stream.decision_stream import NoStream
from scheduler.workflow.candidate_hosts import CandidateHosts
from tests.builders import CELL, OTHER_CELL, uuid_of
from tests.unit.operators.plan.clouds import FILTERS, MadeCloud, flavor, group, node
from tests.unit.operators.plan.test_drain import host_cells
from tests.unit.request.builders import make_spec
from tests.unit.test_manager import FakeHosts, FakePlacement

RULES = [*FILTERS, "DifferentHostFilter", "AggregateInstanceExtraSpecsFilter"]
POLICIES = ("affinity", "anti-affinity", "soft-affinity", "soft-anti-affinity")
#: Extra specs that the mirror can answer, that filters reject, and that only Placement can answer.
EXTRA_SPECS = (
    *[{}] * 8,
    {"trait:HW_FAST": "required"},
    {"trait:HW_FAST": "forbidden"},
    {"capabilities:hypervisor_type": "s== ironic"},
    {"aggregate_instance_extra_specs:disk": "ssd"},
    {"resources1:VCPU": "1", "group_policy": "none"},
    {"resources1:VGPU": "1"},
)


class Cloud(MadeCloud):
    """A random cloud."""

    def __init__(self, rng):
        hosts = [self._host(rng, number) for number in range(rng.randrange(2, 9))]
        options = {"host_subset_size": rng.choice([1, 1, 3]), "shuffle_best_same_weighed_hosts": True}
        super().__init__(*hosts, enabled_filters=RULES, **options)
        self.placed = []
        self._fast = {host.columns["host"] for host in hosts if rng.random() < 0.5}
        for number in range(rng.randrange(12)):
            host = rng.choice(hosts)
            self.put(f"vm{number}", host.columns["host"], flavor(f"m{number}", ram=rng.choice([512, 2048])))
            host.holding(uuid_of(f"vm{number}"))
            self.placed.append((uuid_of(f"vm{number}"), host.columns["host"]))

    def _host(self, rng, number):
        cell = rng.choice([CELL, CELL, OTHER_CELL])
        host = node(f"h{number}", rng.choice([4096, 8192, 16384]), rng.choice([4, 16]), cell=cell)
        if rng.random() < 0.5:
            host.aggregate("ssd", {"disk": "ssd"})
        if rng.random() < 0.3:
            host.numa(host_cells(2))
        return host.disabled() if rng.random() < 0.1 else host

    def _provider(self, host, used):
        provider = super()._provider(host, used)
        if host.columns["host"] in self._fast:
            provider.traits.add("HW_FAST")
        return provider

    def snapshot(self):
        made = super().snapshot()
        self.placement = made.mirror._client
        return replace(made, candidates=CandidateSource(FetchCandidates(self.placement)))


class Claims(FakePlacement):
    """Grants claims as Placement would, within the capacity of providers."""

    def __init__(self, cloud):
        super().__init__(cloud.hosts)
        self.cloud = cloud
        self.used = {}
        self.get = cloud.placement.get
        self.fetch = CandidateSource(FetchCandidates(cloud.placement)).fetch

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


class Request:
    """A random request; ``spec`` makes a new RequestSpec each time, as a decision changes the one it gets."""

    def __init__(self, rng, cloud, instances=None):
        names = [host.columns["host"] for host in cloud.hosts]
        count = rng.choice([1, 1, 1, 2, 3])
        self.uuids = [uuid_of(f"new{number}") for number in range(instances or count)]
        self._extra = rng.choice(EXTRA_SPECS)
        self._sizes = {
            "vcpus": rng.choice([1, 2, 100]) if rng.random() < 0.3 else 1,
            "memory_mb": rng.choice([512, 1024, 4096]),
            "root_gb": rng.choice([0, 1]),
        }
        self._ignored = rng.sample(names, len(names) // 2) if rng.random() < 0.15 else None
        self._forced = [rng.choice(names)] if rng.random() < 0.1 else None
        self._cell = rng.choice([CELL, OTHER_CELL]) if rng.random() < 0.15 else None
        self._host = rng.choice(names) if rng.random() < 0.1 else None
        self._policy = rng.choice(POLICIES) if rng.random() < 0.3 else None
        self._members = rng.sample(cloud.placed, min(2, len(cloud.placed)))
        self._different = [rng.choice(cloud.placed)[0]] if cloud.placed and rng.random() < 0.1 else []

    def spec(self):
        spec = make_spec(
            dict(self._extra),
            sizes=self._sizes,
            num_instances=len(self.uuids),
            instance_uuid=self.uuids[0],
            project_id="p",
            user_id="u",
            ignore_hosts=self._ignored and list(self._ignored),
            force_hosts=self._forced and list(self._forced),
            scheduler_hints={"different_host": list(self._different)} if self._different else {},
        )
        if self._host:
            spec.requested_destination = objects.Destination(host=self._host, node=None)
        elif self._cell:
            cell = objects.CellMapping(uuid=self._cell)
            spec.requested_destination = objects.Destination(cell=cell, allow_cross_cell_move=False)
        if self._policy:
            members = [*(uuid for uuid, _ in self._members), *self.uuids]
            spec.instance_group = group("g", self._policy)
            spec.instance_group.members = members
            spec.instance_group.hosts = sorted({host for _, host in self._members})
        return spec


class Decisions:
    """One random request in one random cloud, and what each decider chooses for it."""

    def __init__(self, seed, instances=None):
        self.seed = seed
        rng = random.Random(seed)
        self.cloud = Cloud(rng)
        self.snapshot = self.cloud.snapshot()
        self.request = Request(rng, self.cloud, instances)

    def plan(self):
        """The service hosts that a plan chooses."""
        cloud = PlannedCloud(self.snapshot)
        decision = self._decided(lambda: cloud.decide(self.request.spec(), self.request.uuids))
        if isinstance(decision, str):
            return decision
        return [cloud.host(each.row) for each in decision.chosen]

    def dry_run(self):
        """The hosts and alternates of a dry run."""
        return self._decided(lambda: dry_run(PlannedCloud(self.snapshot), self.request.spec()))

    def rank(self):
        """The hosts that a plan ranks, and their weights."""
        ranking = self._decided(
            lambda: PlannedCloud(self.snapshot).rank(self.request.spec(), self.request.uuids[0])
        )
        if isinstance(ranking, str):
            return ranking
        names = [self.snapshot.table.rows[row].host for row in ranking.hosts.table_rows]
        return list(zip(names, ranking.totals().tolist(), strict=True))

    def shadow(self):
        """What a shadow decides."""
        shadow = self.make_shadow()
        return self._decided(lambda: shadow.decide(self.copy()))

    def make_shadow(self):
        return ShadowManager(self.snapshot.conf, Notifications(()), self._parts())

    def copy(self):
        return Copy(self.context, self.request.spec(), tuple(self.request.uuids), 0.0)

    def shadow_hosts(self):
        decision = self.shadow()
        if isinstance(decision, str):
            return decision
        return [self._host(choice.node) for choice in decision.choices]

    def manager(self, *, claims=True):
        """The hosts and alternates of the reply of a manager."""
        manager = SchedulerManager(self.snapshot.conf, Notifications(()), self._parts())
        uuids = self.request.uuids if claims else None
        reply = self._decided(
            lambda: manager.select_destinations(self.context, self.request.spec(), uuids, True, True)
        )
        if isinstance(reply, str):
            return reply
        return [[each.service_host for each in some] for some in reply]

    @property
    def hosts(self):
        return [host.columns["host"] for host in self.cloud.hosts]

    @property
    def explainer(self):
        return PlannedCloud(self.snapshot).explainer

    def worlds(self):
        """What a manager reads, and what a plan reads."""
        manager = SchedulerManager(self.snapshot.conf, Notifications(()), self._parts())
        _, driver = make_driver(self.snapshot.conf, self.snapshot.hosts.mapped)
        return manager.world, PlannedWorld(self.snapshot, driver)

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
