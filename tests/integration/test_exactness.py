"""What the mirror answers is what nova's own question would: random clouds, changed between refresh and request.

Two managers on one cloud. One asks Placement nova's question for each request and claims nothing; it tells which
hosts a request may have. The other one answers from the mirror, which is refreshed only when the test says so.
"""

from contextlib import closing
from dataclasses import replace
import json
import random
import sqlite3

import pytest

from scheduler.errors import NoValidHost
from scheduler.manager import SchedulerManager
from scheduler.parts import Outside, put_together
from scheduler.placement import mirror_source
from scheduler.placement.candidates import CandidateSource, FetchCandidates
from scheduler.rpc.context import RequestContext
from scheduler.rpc.notifications import Notifications
from tests.integration.changing_cloud import DISABLED, ChangingCloud
from tests.integration.placement.random_clouds import TRAITS
from tests.support.campaigns import numbers
from tests.unit.request.builders import make_spec
from tools.rig.placement import PlacementProcess

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: The aggregate that is zone az3.
ZONE = 2

ROUNDS = 10
MOST_CHANGES = 3


@pytest.fixture(scope="module")
def database(tmp_path_factory):
    return tmp_path_factory.mktemp("exactness") / "placement.db"


@pytest.fixture(scope="module")
def placement(database):
    with PlacementProcess(database) as url:
        yield url


def make_older(database):
    """Let all providers have been changed an hour earlier."""
    earlier = "datetime({0}, '-1 hour')"
    times = ", ".join(f"{name} = {earlier.format(name)}" for name in ("created_at", "updated_at"))
    with closing(sqlite3.connect(database, timeout=30)) as connection, connection:
        connection.execute(f"UPDATE resource_providers SET {times}")


class Scheduler:
    """A manager whose mirror, if it has one, is refreshed by hand.

    Attributes:
        writes: The providers of each write of allocations that Placement granted since the last request.
        from_mirror: How often the mirror answered.
        proven: How often the time of its last change was read of a host before a claim.
    """

    def __init__(self, cloud, *, by_mirror):
        self.conf = cloud.conf
        parts = put_together(self.conf, Outside.from_conf(self.conf))
        if not by_mirror:
            parts = replace(parts, candidates=CandidateSource(FetchCandidates(parts.placement)))
            parts.mirror.find = lambda _queries: None
        parts.hosts.mapped = lambda _host: True  # it learns of new hosts in the background
        self.mirror, self.hosts = parts.mirror, parts.hosts
        self.writes, self.from_mirror, self.proven = [], 0, 0
        self._watch(parts)
        self.manager = SchedulerManager(self.conf, Notifications(()), parts)

    def _watch(self, parts):
        write, get, find = parts.placement.write, parts.placement.get, parts.mirror.find

        def watched_write(method, path, version, context=None, body=None):
            reply = write(method, path, version, context, body)
            if reply.status < 300 and "/allocations" in path:
                self.writes += _providers(json.loads(body or "{}"))
            return reply

        def watched_get(path, *arguments, **options):
            reply = get(path, *arguments, **options)
            self.proven += path.count("/") == 2 and reply.unchanged_for > 3000
            return reply

        def watched_find(*arguments):
            found = find(*arguments)
            self.from_mirror += found is not None
            return found

        parts.placement.write, parts.placement.get = watched_write, watched_get
        parts.mirror.find = watched_find

    def __enter__(self):
        self.manager.start()
        assert self.manager.wait_until_ready(30)
        return self

    def __exit__(self, *_):
        self.manager.stop(lambda: 10)

    def refresh(self, *, wide):
        """Learn what was changed so far: by the generations, or by the wide question."""
        self.hosts.snapshot(0)
        self.hosts.aggregate_store.reload()
        self.mirror._reader.wants_wide |= wide
        for _ in range(2):  # the second one reads nodes that the wide answer lacks
            self.mirror.run_round()

    def ask(self, spec, uuids):
        """Return the chosen compute node of each instance, and the alternates of the first; none: NoValidHost."""
        self.writes.clear()
        context = RequestContext(user_id="u", project_id="p")
        try:
            found = self.manager.select_destinations(
                context, spec, uuids, return_objects=True, return_alternates=True
            )
        except NoValidHost:
            return [], []
        first, *others = found
        return [first[0], *(each[0] for each in others)], first[1:]

    def allowed(self, spec, uuids=None):
        """Return all compute nodes that may be chosen for one instance; without ``uuids`` nothing is claimed."""
        chosen, alternates = self.ask(spec, uuids)
        return {each.compute_node_uuid for each in [*chosen, *alternates]}


def _providers(body):
    entries = [body] if "allocations" in body else list(body.values())
    return [frozenset(entry["allocations"]) for entry in entries if entry["allocations"]]


class Requests:
    """Random requests; ``spec`` makes a new RequestSpec each time, as a scheduler changes the one it gets."""

    def __init__(self, cloud):
        rng = self.rng = cloud.rng
        sizes = {
            "vcpus": rng.choice([1, 2, 4]),
            "memory_mb": rng.choice([512, 1024, 2048]),
            "root_gb": rng.choice([0, 1, 20]),
        }
        self.traits = rng.sample(TRAITS, rng.choice([0, 1, 1, 2]))
        self.amounts = {"VCPU": sizes["vcpus"], "MEMORY_MB": sizes["memory_mb"], "DISK_GB": sizes["root_gb"]}
        extra = {f"trait:{trait}": rng.choice(["required", "forbidden"]) for trait in self.traits}
        if rng.random() < 0.1:
            extra["resources:VGPU"] = "1"
        fields = {}
        if rng.random() < 0.3:
            fields["availability_zone"] = rng.choice(["az1", "az2", "az3"])
        if rng.random() < 0.1:
            fields["ignore_hosts"] = [rng.choice(cloud.fleet.hosts).name]
        if rng.random() < 0.1:
            fields["force_hosts"] = [rng.choice(cloud.fleet.hosts).name]
        self._names = [host.name for host in cloud.fleet.hosts]
        self.count = rng.choice([1, 1, 1, 2, 3])
        self._arguments = (extra, sizes, fields)
        self.uuids = [cloud.new_uuid() for _ in range(self.count)]

    def want_only(self, host):
        """Leave out all other hosts, which no question to Placement does."""
        self._arguments[2]["ignore_hosts"] = [name for name in self._names if name != host.name]

    def spec(self, count):
        extra, sizes, fields = self._arguments
        given = {name: list(value) if isinstance(value, list) else value for name, value in fields.items()}
        return make_spec(
            extra, sizes=sizes, num_instances=count, user_id="u", instance_uuid=self.uuids[0], **given
        )

    def __str__(self):
        return f"{self.count} of {self._arguments}"


class InertLoop:
    """A background loop that does nothing: the test says when the mirror is refreshed."""

    running = False

    def __init__(self, *_, **__): ...

    def start(self, delay=0.0): ...

    def wake(self): ...

    def stop(self, timeout=0.0): ...


class Comparison:
    """Both schedulers on one cloud."""

    def __init__(self, cloud, asking, mirrored, database):
        self.cloud, self.asking, self.mirrored, self._database = cloud, asking, mirrored, database

    def change(self, request):
        """Change the cloud, mostly the host that the request would get."""
        if self.cloud.quiet and self.cloud.rng.random() < 0.5:
            request.want_only(self.cloud.open_host())
            return
        first, _ = self.mirrored.ask(request.spec(1), None)
        self.cloud.aim_at(first[0].compute_node_uuid if first else None, request.traits)
        for _ in range(self.cloud.rng.randrange(MOST_CHANGES + 1)):
            self.cloud.rng.choice(self.cloud.changes)()

    def request(self, request):
        """Send a request to the one, and judge the answer by the other."""
        cloud = self.cloud
        allowed = self.asking.allowed(request.spec(1))
        chosen, _ = self.mirrored.ask(request.spec(request.count), request.uuids)
        nodes = [each.compute_node_uuid for each in chosen]
        cloud.note(request, request.uuids, "->", nodes, "of", sorted(allowed))
        assert set(nodes) <= allowed, self.text("a host was chosen that must not be")
        for providers in self.mirrored.writes:
            roots = {cloud.roots.get(each, each) for each in providers - cloud.sharing}
            assert roots <= allowed, self.text(f"claimed on the way: {providers}")
        if nodes:
            cloud.instances.update(request.uuids)
        elif allowed:
            assert request.count > 1, self.text("NoValidHost, but there are hosts")
            found, _ = self.asking.ask(request.spec(request.count), request.uuids)
            assert not found, self.text("NoValidHost for several, but there is room for all")
        return nodes

    def compare(self, *, wide):
        """After a refresh both may choose the same hosts; without the wide question but for silent changes.

        Such hosts may be missing, and be named as alternates, which are not checked; none of them is chosen.
        """
        cloud = self.cloud
        cloud.settle()
        make_older(self._database)  # what is read now was not changed a moment ago
        for each in (self.asking, self.mirrored):
            each.refresh(wide=wide)
        if wide:
            # Nodes whose memory has unit limits are not in its answer.
            freed = cloud.freed_by_delete & cloud.roots.keys()
            cloud.freed_by_delete = {each for each in freed if cloud.breaks_limits(each, {"MEMORY_MB": 1})}
            silent = cloud.changed_silently & cloud.roots.keys()
            cloud.changed_silently = {each for each in silent if cloud.breaks_limits(each, {"MEMORY_MB": 1})}
        for _ in range(3):
            request = Requests(cloud)
            expected = self.asking.allowed(request.spec(1))
            chosen, alternates = self.mirrored.ask(request.spec(1), request.uuids[:1])
            first = {each.compute_node_uuid for each in chosen}
            found = first | {each.compute_node_uuid for each in alternates}
            cloud.instances |= {request.uuids[0]} if found else set()
            cloud.note("after a refresh:", request, sorted(found), "of", sorted(expected))
            # The wide question does not tell unit limits; a claim is refused then, and the host is read.
            more = {each for each in found - expected if not cloud.breaks_limits(each, request.amounts)}
            more -= cloud.changed_silently - first
            assert not more, self.text(f"hosts that must not be chosen, after a refresh: {more}")
            missing = expected - found - cloud.freed_by_delete - cloud.changed_silently
            assert not missing, self.text(f"hosts are missing after a refresh: {missing}")

    def text(self, problem):
        return "\n".join([problem, *self.cloud.history])


@pytest.mark.parametrize("number", numbers(2, 200))
def test_answers_are_those_of_novas_own_question(
    placement, database, tmp_path, monkeypatch, campaign_seed, number
):
    monkeypatch.setattr(mirror_source, "BackgroundLoop", InertLoop)
    rng = random.Random(campaign_seed + number)
    with (
        ChangingCloud(tmp_path, placement, rng, quiet=number % 4 == 1) as cloud,
        Scheduler(cloud, by_mirror=False) as asking,
        Scheduler(cloud, by_mirror=True) as mirrored,
    ):
        comparison = Comparison(cloud, asking, mirrored, database)
        comparison.compare(wide=True)
        placed = 0
        for _ in range(ROUNDS):
            request = Requests(cloud)
            comparison.change(request)
            placed += sum(bool(comparison.request(each)) for each in (request, Requests(cloud)))
            if rng.random() < 0.3:
                comparison.compare(wide=rng.random() < 0.3)
        assert placed
        assert mirrored.from_mirror
        assert mirrored.proven


def _comes_up(cloud):
    """Let a host come up for the first time."""
    cloud.make_host()
    return cloud.fleet.hosts[-1]


def _is_enabled(cloud):
    """Enable the service of a host again."""
    host = cloud.fleet.hosts[0]
    cloud.set_status(host, disabled=False)
    cloud.set_trait(host.uuid, DISABLED, has=False)
    return host


def _is_put_into_zone(cloud):
    """Move a host to the zone of the request, in Placement and in nova."""
    host = cloud.fleet.hosts[0]
    cloud.put(host, [cloud.fleet.aggregates[ZONE]])
    return host


@pytest.mark.parametrize("change", [_comes_up, _is_enabled, _is_put_into_zone])
def test_a_host_that_may_be_chosen_since_a_moment_ago_is_among_those_that_may_be(
    placement, tmp_path, monkeypatch, change
):
    monkeypatch.setattr(mirror_source, "BackgroundLoop", InertLoop)
    monkeypatch.setattr(ChangingCloud, "_limits", lambda _self, inventory: inventory)
    fields = {"availability_zone": "az3"} if change is _is_put_into_zone else {}
    with ChangingCloud(tmp_path, placement, random.Random(5), quiet=False) as cloud:
        first, *others = cloud.fleet.hosts
        cloud.set_status(first, disabled=change is _is_enabled, down=False)
        cloud.set_trait(first.uuid, DISABLED, has=change is _is_enabled)
        cloud.put(first, [cloud.fleet.aggregates[0]])
        for other in others[:2]:
            cloud.put(other, [cloud.fleet.aggregates[ZONE]])
        with Scheduler(cloud, by_mirror=True) as scheduler:
            scheduler.refresh(wide=True)

            def allowed():
                sizes, instance = {"vcpus": 1, "memory_mb": 1, "root_gb": 0}, cloud.new_uuid()
                spec = make_spec({}, sizes=sizes, user_id="u", instance_uuid=instance, **fields)
                cloud.instances.add(instance)
                return scheduler.allowed(spec, [instance])

            before = allowed()
            assert before  # the others hide it: Placement is not asked
            host = change(cloud)
            assert host.uuid not in before
            scheduler.hosts.aggregate_store.reload()  # nova casts that an aggregate has changed
            assert allowed() == {*before, host.uuid}
            assert scheduler.from_mirror >= 2, "Placement was queried"
