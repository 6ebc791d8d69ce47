"""What the mirror answers is what nova's own question would: random clouds, changed between refresh and request.

Two managers on one cloud. One asks Placement nova's question for each request and claims nothing; it tells which
hosts a request may have. The other one answers from the mirror, which is refreshed only when the test says so.
"""

from contextlib import closing
from dataclasses import replace
import json
import math
import random
import sqlite3
import uuid

from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
import pytest

from scheduler.errors import NoValidHost
from scheduler.manager import SchedulerManager
from scheduler.parts import Outside, put_together
from scheduler.placement import mirror_source
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.client import PlacementClient
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import PlainQuery
from scheduler.rpc.context import RequestContext
from scheduler.rpc.notifications import Notifications
from tests.integration.changing_cloud import KINDS, ChangingCloud
from tests.support.campaigns import numbers
from tools.rig.draw import draw_request
from tools.rig.fleet import DISABLED, ZONES
from tools.rig.load import random_uuid
from tools.rig.placement import placement_of
from tools.rig.providers import Provider, create_fleet, send
from tools.rig.wanted import Wanted

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

#: The aggregate that is zone az3.
ZONE = 2

ROUNDS = 10
MOST_CHANGES = 3


@pytest.fixture(scope="module")
def placement(tmp_path_factory):
    with placement_of(tmp_path_factory.mktemp("exactness")) as place:
        yield place


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
            parts = replace(parts, candidates=CandidateSource(parts.placement))
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
        self.hosts.api.read()
        if wide:
            self.mirror.reader.wide_at = -math.inf
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


class Request:
    """A random request; ``spec`` makes a new RequestSpec each time, as a scheduler changes the one it gets."""

    def __init__(self, cloud):
        rng, hosts = cloud.rng, cloud.fleet.hosts
        wanted = draw_request(rng, cloud.fleet, KINDS)
        if rng.random() < 0.3:
            wanted = replace(wanted, zone=rng.choice(ZONES))
        count = rng.choice((1, 1, 1, 2, 3))
        self.wanted = replace(wanted, count=count, root_gb=rng.choice((0, 0, 1, 20)))
        self._hosts = hosts
        self.uuids = [random_uuid(rng) for _ in range(self.wanted.count)]

    def want_only(self, host):
        """Leave out all other hosts, which no question to Placement does."""
        others = tuple(each.name for each in self._hosts if each != host)
        self.wanted = replace(self.wanted, ignored=others)

    @property
    def traits(self):
        return [*self.wanted.traits, *self.wanted.forbidden]

    def spec(self, count):
        return self.wanted.spec(self.uuids[:count])


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
        changes, rng = self.cloud.changes, self.cloud.rng
        if changes.quiet and rng.random() < 0.5:
            request.want_only(changes.open_host())
            return
        first, _ = self.mirrored.ask(request.spec(1), None)
        changes.aim_at(first[0].compute_node_uuid if first else None, request.traits)
        for _ in range(rng.randrange(MOST_CHANGES + 1)):
            rng.choice(changes.all)()

    def request(self, request):
        """Send a request to the one, and judge the answer by the other."""
        cloud, count = self.cloud.changes, request.wanted.count
        allowed = self.asking.allowed(request.spec(1))
        chosen, _ = self.mirrored.ask(request.spec(count), request.uuids)
        nodes = [each.compute_node_uuid for each in chosen]
        cloud.note(request.wanted, request.uuids, "->", nodes, "of", sorted(allowed))
        assert set(nodes) <= allowed, self.text("a host was chosen that must not be")
        for providers in self.mirrored.writes:
            roots = {cloud.roots.get(each, each) for each in providers - cloud.sharing}
            assert roots <= allowed, self.text(f"claimed on the way: {providers}")
        if nodes:
            cloud.instances.update(request.uuids)
        elif allowed:
            assert count > 1, self.text("NoValidHost, but there are hosts")
            found, _ = self.asking.ask(request.spec(count), request.uuids)
            assert not found, self.text("NoValidHost for several, but there is room for all")
        return nodes

    def compare(self, *, wide):
        """After a refresh both may choose the same hosts; without the wide question but for silent changes.

        Such hosts may be missing, and be named as alternates, which are not checked; none of them is chosen.
        """
        cloud = self.cloud.changes
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
            request = Request(self.cloud)
            expected = self.asking.allowed(request.spec(1))
            chosen, alternates = self.mirrored.ask(request.spec(1), request.uuids[:1])
            first = {each.compute_node_uuid for each in chosen}
            found = first | {each.compute_node_uuid for each in alternates}
            cloud.instances |= {request.uuids[0]} if found else set()
            cloud.note("after a refresh:", request.wanted, sorted(found), "of", sorted(expected))
            # The wide question does not tell unit limits; a claim is refused then, and the host is read.
            more = {
                each for each in found - expected if not cloud.breaks_limits(each, request.wanted.amounts)
            }
            more -= cloud.changed_silently - first
            assert not more, self.text(f"hosts that must not be chosen, after a refresh: {more}")
            missing = expected - found - cloud.freed_by_delete - cloud.changed_silently
            assert not missing, self.text(f"hosts are missing after a refresh: {missing}")

    def text(self, problem):
        return "\n".join([problem, *self.cloud.changes.history])


@pytest.mark.parametrize("number", numbers(2, 200))
def test_answers_are_those_of_novas_own_question(placement, tmp_path, monkeypatch, campaign_seed, number):
    monkeypatch.setattr(mirror_source, "BackgroundLoop", InertLoop)
    rng = random.Random(campaign_seed + number)
    with (
        ChangingCloud(tmp_path, placement, rng, quiet=number % 4 == 1) as cloud,
        Scheduler(cloud, by_mirror=False) as asking,
        Scheduler(cloud, by_mirror=True) as mirrored,
    ):
        comparison = Comparison(cloud, asking, mirrored, placement[1])
        comparison.compare(wide=True)
        placed = 0
        for _ in range(ROUNDS):
            request = Request(cloud)
            comparison.change(request)
            placed += sum(bool(comparison.request(each)) for each in (request, Request(cloud)))
            if rng.random() < 0.3:
                comparison.compare(wide=rng.random() < 0.3)
        assert placed
        assert mirrored.from_mirror
        assert mirrored.proven


def _comes_up(changes):
    """Let a host come up for the first time."""
    return changes.make_host()


def _is_enabled(changes):
    """Enable the service of a host again."""
    host = changes.fleet.hosts[0]
    changes.set_status(host, disabled=False)
    changes.admin.set_trait(host.uuid, DISABLED, has=False)
    return host


def _is_put_into_zone(changes):
    """Move a host to the zone of the request, in Placement and in nova."""
    host = changes.fleet.hosts[0]
    changes.put(host, [changes.fleet.aggregates[ZONE]])
    return host


@pytest.mark.parametrize("change", [_comes_up, _is_enabled, _is_put_into_zone])
def test_a_host_that_may_be_chosen_since_a_moment_ago_is_among_those_that_may_be(
    placement, tmp_path, monkeypatch, change
):
    monkeypatch.setattr(mirror_source, "BackgroundLoop", InertLoop)
    kinds = replace(KINDS, without=KINDS.without | {"limits", "isolated"})
    wanted = Wanted(memory_mb=1, root_gb=0, zone="az3" if change is _is_put_into_zone else None)
    with ChangingCloud(tmp_path, placement, random.Random(5), quiet=False, kinds=kinds) as cloud:
        changes = cloud.changes
        first, *others = cloud.fleet.hosts
        changes.set_status(first, disabled=change is _is_enabled)
        changes.admin.set_trait(first.uuid, DISABLED, has=change is _is_enabled)
        changes.put(first, [cloud.fleet.aggregates[0]])
        for other in others[:2]:
            changes.put(other, [cloud.fleet.aggregates[ZONE]])
        with Scheduler(cloud, by_mirror=True) as scheduler:
            scheduler.refresh(wide=True)

            def allowed():
                instance = changes.new_uuid()
                return scheduler.allowed(wanted.spec([instance]), [instance])

            before = allowed()
            assert before  # the others hide it: Placement is not asked
            host = change(changes)
            assert host.uuid not in before
            scheduler.hosts.api.read()  # nova casts that an aggregate has changed
            assert allowed() == {*before, host.uuid}
            assert scheduler.from_mirror >= 2, "Placement was queried"


def test_a_host_that_is_created_again_at_its_generation_is_not_taken_for_the_one_before(placement):
    url, database = placement
    node, avx = str(uuid.uuid4()), "HW_CPU_X86_AVX"
    path = f"{url}/resource_providers/{node}"

    def create(trait):
        inventories = {"MEMORY_MB": {"total": 4096}}
        create_fleet(url, [Provider(node, node, inventories, ["COMPUTE_NODE", trait])])
        return send("get", path).json()["generation"]

    def check():
        answer = mirror.known.find(PlainQuery({"MEMORY_MB": 1024}, required=frozenset([avx])))
        return mirror.check(answer, None)([node])

    generation = create(avx)
    make_older(database)
    session = Session(auth=token_endpoint.Token(url, "admin"))
    mirror = CandidateMirror(
        PlacementClient(Adapter(session, service_type="placement", raise_exc=False)), lambda: 8.0
    )
    mirror.run_round()
    assert check() == {}
    assert send("delete", path).ok
    assert create("HW_CPU_X86_MMX") == generation
    try:
        assert f"trait {avx} is missing" in check()[node]
    finally:
        send("delete", path)
        session.session.close()
