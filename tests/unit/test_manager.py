"""The steps of a request, with the world outside replaced: what is asked of whom, and what comes of it."""

from concurrent.futures import ThreadPoolExecutor
import contextlib
import itertools
import json
import logging
import math
import re
import threading
import time
from types import SimpleNamespace
from typing import NamedTuple
from unittest import mock

import pytest

from scheduler import conf as options
from scheduler import objects
from scheduler.bounds.outages import Lacks
from scheduler.claims.claims import Claims
from scheduler.conf.partitions import Partition
from scheduler.decisions.document import Chosen, Place, decode
from scheduler.errors import (
    AllocationUpdateFailed,
    BerthError,
    CallerLeft,
    NoValidHost,
    PlacementUnavailable,
    RequestFilterFailed,
    ReturnedToBroker,
)
from scheduler.hosts.aggregates import Aggregates
from scheduler.hosts.pending import PendingPlacements
from scheduler.manager import SchedulerManager
from scheduler.nova_db.inventory import HostInventory
from scheduler.nova_db.partition_hosts import PartitionHosts
from scheduler.parts import Outside, Parts, put_together
from scheduler.placement.allocations import ConsumerAllocations, Owner
from scheduler.placement.answer import AllocationCandidate, Candidates
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import PlacementUnanswered, PlacementUnreachable
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.outcomes import Outcome
from scheduler.placement.reply import Reply
from scheduler.placement.write_policy import Timing, WritePolicy
from scheduler.placement.writes import Written
from scheduler.request import prefilters
from scheduler.request.instance_state import OVER, InstanceState
from scheduler.request.past import Past
from scheduler.request.progress import Progress
from scheduler.request.query import Query
from scheduler.request.targets import NamedNode
from scheduler.rpc.calls import Call, Event
from scheduler.rpc.context import RequestContext
from scheduler.selection.host_claiming import NOT_ENOUGH
from scheduler.stream.decision_stream import DecisionStream, NoStream
from scheduler.stream.shared_decisions import LocalState
from scheduler.workflow.candidate_hosts import CandidateHosts
from scheduler.workflow.world import LiveWorld
from tests.builders import CELL, OTHER_CELL, Instances, make_aggregates, make_host, make_table, uuid_of
from tests.support.clock import Clock
from tests.support.placement import Placement, make_node
from tests.support.waiting import eventually
from tests.unit.placement.test_log import Answering
from tests.unit.selection.requests import REFUSED, NoDoubts, granted, group, host_with_candidate, make_spec
from tests.unit.stream.fake_broker import FakeBroker

CONF = """
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
[api_database]
connection = sqlite://
[database]
connection = sqlite://
"""


class FakeHosts:
    """The inventory over builders; ``unknown`` nodes show only once they are asked for by uuid."""

    def __init__(self, hosts, unknown=(), clock=time.monotonic):
        self.clock = clock
        self.table = make_table(hosts)
        self.whole = make_table([*hosts, *unknown])
        self.instances = Instances([*hosts, *unknown])
        self.pending = PendingPlacements()
        self.readings = []
        self.reader = SimpleNamespace(cell_readings=lambda: self.readings)
        self._aggregates = make_aggregates(hosts)
        self.partition = PartitionHosts(None, self.aggregates)
        self.looked_up = []
        self.others = []  # of other partitions
        self.recovery = lambda cell_uuid: False
        self.snapshots = []
        self.arrivals = []
        self.ages = []

    def aggregates(self):
        return self._aggregates

    def cell_names(self):
        return {CELL: "cell1"}

    def snapshot(self, max_age=None, cell_uuid=None, arrived_at=None):
        self.arrivals.append(arrived_at)
        self.snapshots.append(cell_uuid)
        self.ages.append(max_age)
        return self.table

    def outside(self, uuids):
        return make_table([host for host in self.others if uuid_of(host.columns["host"]) in uuids])

    def complete(self, table, uuids):
        return table if set(uuids) <= set(table.row_of_uuid) else self.whole

    def recover(self, table, cell_uuid=None):
        return self.recovery(cell_uuid)

    def find_nodes(self, wanted):
        self.looked_up.append((wanted.host, wanted.node))
        rows = self.table.nodes(wanted.host, wanted.node)
        return [NamedNode(row.uuid, row.host, row.nodename) for row in rows]

    def members_of(self, group_uuid):
        return []

    def nodes_of_hosts(self, table, hosts):
        return table.nodes_of_hosts(hosts)

    def hosts_of_instances(self, instance_uuids):
        rows = {self.pending.row_of(uuid, self.table) for uuid in instance_uuids} - {None}
        places = [place for uuid in instance_uuids for place in self.instances.locate([uuid]).get(uuid, ())]
        return {self.table.rows[row].host for row in rows} | {host for _, host in places}, True

    def minimum_compute_version(self):
        return 74

    def mapped(self, host):
        return True

    def reset(self):
        pass


class Asked(NamedTuple):
    """A claim for one instance."""

    uuid: str
    candidate: AllocationCandidate
    owner: Owner
    kept: frozenset[str]


class FakePlacement:
    """Candidates of the hosts, claims that are granted unless told otherwise, and all that was asked."""

    batch_size = 20
    doubts = NoDoubts()
    writer = SimpleNamespace(timing=Timing(sleep=lambda _seconds: None), policy=WritePolicy())
    listeners = ()
    note_refusal = Claims.note_refusal

    def __init__(self, hosts, answers=None):
        self.offer = {host.columns["uuid"]: tuple(host.candidates) for host in hosts if host.candidates}
        self.answers = answers or {}
        self.beyond_limit = {}
        self.before_a_claim = lambda: None
        self.queries, self.claimed, self.released = [], [], []
        self.held = {}
        self.state, self.states = InstanceState.WAITING, {}
        self.fenced, self.refused_fences = [], []

    def get(self, path, *_args):
        if not path.endswith("/allocations"):
            raise PlacementUnreachable("no")
        consumers = {
            uuid: {"resources": {}} for uuid, rows in self.held.items() if path.split("/")[2] in rows
        }
        return Reply(200, json.dumps({"allocations": consumers, "resource_provider_generation": 1}).encode())

    def fetch(self, queries, context):
        self.queries.append([query.querystring for query in queries])
        truncated = bool(self.beyond_limit) and queries[0].limit is not None
        offer = self.offer if truncated else self.offer | self.beyond_limit
        return Candidates(offer, truncated=truncated, reason="" if offer else "nothing fits")

    def claim(self, candidates, of, deadline=None):
        owner, kept = of.owner, of.kept.providers
        return {uuid: self._claim(Asked(uuid, one, owner, kept)) for uuid, one in candidates.items()}

    def _claim(self, request):
        self.before_a_claim()
        root, owner = request.candidate.root, request.owner
        answer = self.answer(request)
        if answer.done:
            who = owner.project_id, owner.user_id
            self.claimed.append((request.uuid, root, *who, set(request.kept)))
            self.held[request.uuid] = request.candidate.allocations
        return granted(answer, request.candidate)

    def answer(self, request):
        return self.answers.get(request.candidate.root, Written(Outcome.DONE))

    def fence(self, held, of, deadline):
        self.fenced.append({uuid: one.allocations for uuid, one in held.items()})
        if self.refused_fences:
            return dict.fromkeys(held, self.refused_fences.pop(0))
        return {uuid: Written(Outcome.DONE, held=one) for uuid, one in held.items()}

    def read(self, instance_uuids, context=None):
        return {uuid: ConsumerAllocations(self.held.get(uuid, {}), 1) for uuid in instance_uuids}

    def release(self, held, left, kept, context=None):
        self.released.extend(held)
        for uuid in held:
            self.held.pop(uuid, None)
        return set()

    def states_of(self, uuids, ignored_hosts=()):
        return {uuid: self.states.get(uuid, self.state) for uuid in uuids}


class Told:
    """Notifications, written down."""

    def __init__(self):
        self.events = []

    def select_destinations_start(self, context, spec):
        self.events.append("start")

    def select_destinations_end(self, context, spec):
        self.events.append("end")


@pytest.fixture
def conf(tmp_path):
    path = tmp_path / "nova.conf"
    path.write_text(CONF)
    return options.load(["--config-file", str(path)])


class World(NamedTuple):
    """A manager, and what it works with."""

    manager: SchedulerManager
    hosts: FakeHosts
    placement: FakePlacement
    told: Told


@pytest.fixture
def make_world(conf):
    numbers = itertools.count(1)

    def make(hosts, answers=None, unknown=(), clock=time.monotonic, mirror=None, broker=None):
        found, placement, told = (
            FakeHosts(hosts, unknown, clock),
            FakePlacement([*hosts, *unknown], answers),
            Told(),
        )
        mirror = mirror or CandidateMirror(None, lambda: 8.0)  # never refreshed: Placement is asked
        state = LocalState(found.pending, lambda: found.table, mirror)
        stream = DecisionStream(broker, state, f"s{next(numbers)}", "") if broker else NoStream()
        placement.listeners = mirror, stream.sharing
        parts = Parts(
            hosts=found,
            placement=placement,
            candidates=placement,
            candidate_hosts=CandidateHosts(conf, found, placement, None, None),
            claims=placement,
            mirror=mirror,
            stream=stream,
        )
        return World(SchedulerManager(conf, told, parts), found, placement, told)

    return make


def ask(world, spec=None, uuids=("i1",), call=None, **flags):
    context = RequestContext(user_id="caller", project_id="project")
    context.call = call
    flags = {"return_objects": True, "return_alternates": True} | flags
    return world.manager.select_destinations(
        context, spec or make_spec(project_id="p"), uuids and list(uuids), **flags
    )


def two_hosts():
    return [host_with_candidate("h1").ram(8192), host_with_candidate("h2").ram(4096)]


def test_the_best_host_is_claimed_for_the_owner_of_the_request(make_world):
    world = make_world(two_hosts())
    reply = ask(world)
    assert [one.service_host for one in reply[0]] == ["h1", "h2"]
    assert world.placement.claimed == [("i1", uuid_of("h1"), "p", "caller", set())]
    assert world.told.events == ["start", "end"]


def serve_partition(world, hosts, **values):
    partition = Partition("p", "scheduler.p", **values)
    world.hosts.partition = PartitionHosts(partition, lambda: make_aggregates(hosts))


def test_of_a_partition_only_the_aggregates_are_asked_for(make_world):
    hosts = [host_with_candidate("h1").aggregate("a"), host_with_candidate("h2").aggregate("b")]
    world = make_world(hosts)
    serve_partition(world, hosts, aggregates=("a",))
    ask(world)
    (query,) = world.placement.queries[0]
    (uuid,) = [each.uuid for each in make_aggregates(hosts) if each.name == "a"]
    assert f"member_of=in%3A{uuid}&" in query


def test_what_other_schedulers_took_is_missing_from_the_time_for_a_request(make_world):
    world = make_world(two_hosts(), clock=lambda: 1000.0)
    begun, claim = [], world.placement.claim
    world.placement.claim = lambda *wanted: begun.append(wanted[-1]) or claim(*wanted)
    for received in (math.inf, 700.0):
        ask(world, call=Call(received=received))
    assert begun[0] - begun[1] == 300.0


def test_a_partition_whose_aggregates_do_not_exist_has_no_host(make_world):
    world = make_world(two_hosts())
    serve_partition(world, two_hosts(), aggregates=("absent",))
    with pytest.raises(NoValidHost, match="None of the aggregates of partition p exists"):
        ask(world)
    assert world.placement.queries == []


def test_the_query_is_that_of_the_prefiltered_request(make_world):
    world = make_world(two_hosts())
    ask(world)
    (query,) = world.placement.queries[0]
    assert "root_required=OWNER_NOVA%2C%21COMPUTE_STATUS_DISABLED" in query


@pytest.fixture
def decisions(caplog):
    """The lines on decisions, with the milliseconds left out."""
    caplog.set_level(logging.INFO, "nova.scheduler.manager")

    def lines():
        return [
            re.sub(r"\d+ ms", "N ms", text)
            for text in caplog.messages
            if text.startswith(("Placed instance", "No host for instance"))
        ]

    return lines


def test_a_decision_is_one_line(make_world, decisions):
    ask(make_world(two_hosts(), {uuid_of("h1"): REFUSED}))
    (line,) = decisions()
    assert line.startswith("Placed instance i1 on host h2 (cell1): 2 candidates -> 2 passed, 2 tries, N ms, ")
    assert line.endswith(", DISK_GB:4 MEMORY_MB:512 VCPU:2")


def test_of_several_instances_each_has_its_line(make_world, decisions):
    ask(make_world(two_hosts()), uuids=("i1", "i2"))
    first, second = decisions()
    assert first.startswith("Placed instance i1 on host h1 (cell1): 2 candidates -> 2 passed, 1 try, N ms, ")
    assert second.startswith("Placed instance i2 on host ")


def test_a_request_without_host_is_one_line_with_its_reason(make_world, decisions):
    with pytest.raises(NoValidHost):
        ask(make_world([host_with_candidate("h1")], {uuid_of("h1"): REFUSED}), uuids=("i1", "i2"))
    (line,) = decisions()
    assert line.startswith("No host for instance i1 and 1 more: 1 candidate -> 1 passed, 2 tries, N ms, ")
    assert ": No valid host was found. There are not enough hosts available. " in line


def test_without_candidates_nobody_is_told_and_the_reason_is_empty(make_world):
    world = make_world([])
    with pytest.raises(NoValidHost) as caught:
        ask(world)
    assert str(caught.value) == "No valid host was found. "
    assert world.told.events == []


def test_without_an_answer_of_placement_the_reason_says_so(make_world):
    world = make_world([])
    world.placement.fetch = lambda *_: Candidates(reason="connection refused", failed=True)
    with pytest.raises(PlacementUnavailable, match="Placement is unavailable") as caught:
        ask(world)
    assert "refused" not in str(caught.value)  # it may have addresses, and users see the text


def test_a_prefilter_that_gets_no_answer_of_placement_meets_an_outage(make_world, monkeypatch):
    world = make_world(two_hosts())

    def run(spec, context, services):
        raise PlacementUnanswered("timed out", timed_out=True)

    monkeypatch.setattr(prefilters, "run", run)
    with pytest.raises(PlacementUnavailable) as caught:
        ask(world)
    assert caught.value.timed_out


@pytest.mark.parametrize(
    ("usable", "enabled", "lacks"),
    [
        ([True, True], True, Lacks.NOTHING),
        ([True, False], True, Lacks.SOME_HOSTS),
        ([True, False], False, Lacks.NOTHING),
    ],
    ids=["all are read", "one cannot be read", "a disabled one cannot be read"],
)
def test_a_scheduler_lacks_the_hosts_of_an_enabled_cell_that_it_cannot_use(
    make_world, usable, enabled, lacks
):
    world = make_world(two_hosts())
    world.manager._placement = SimpleNamespace(check=lambda unused_for: "")
    cell = SimpleNamespace(enabled=enabled)
    world.hosts.readings = [SimpleNamespace(cell=cell, usable=each) for each in usable]
    world.manager.outages.look()
    assert world.manager.outages.lacks is lacks


def test_an_outage_is_waited_out_and_the_request_is_served_without_a_second_run_of_the_prefilters(
    make_world, monkeypatch
):
    world = make_world(two_hosts())
    runs = []
    run_all = prefilters.run
    monkeypatch.setattr(prefilters, "run", lambda *arguments: runs.append(run_all(*arguments)))
    answers = iter([Candidates(reason="HTTP 500", failed=True), None])
    fetch = world.placement.fetch
    world.placement.fetch = lambda *arguments: next(answers) or fetch(*arguments)
    problems = iter(["HTTP 500", "HTTP 500"])
    world.manager._placement = SimpleNamespace(check=lambda unused_for: next(problems, ""))
    world.manager.outages.start()
    try:
        assert ask(world)[0][0].service_host == "h1"
    finally:
        world.manager.outages.stop()
    assert len(runs) == 1
    (record,) = map(decode, world.manager.decisions.memory.latest_first())
    assert record.error is None
    assert "outage" in record.milliseconds


MALFORMED = (
    "The server could not comply with the request since it is either malformed or otherwise incorrect."
)
UNKNOWN_TRAIT = {"status": 400, "detail": f"{MALFORMED}\n\n No such trait(s): CUSTOM_X.  "}
NOT_OF_PLACEMENT = b"<h1>400 Bad request</h1> Your browser sent an invalid request."


def test_a_request_that_placement_rejects_ends_with_its_words(make_world):
    reason = "Placement rejected the request: No such trait(s): CUSTOM_X."
    body = json.dumps({"errors": [UNKNOWN_TRAIT]}).encode()
    world = make_world([])
    world.placement.fetch = CandidateSource(Answering(400, body)).fetch
    with pytest.raises(NoValidHost) as caught:
        ask(world)
    assert str(caught.value) == f"No valid host was found. {reason}"
    assert caught.value.final
    (record,) = map(decode, world.manager.decisions.memory.latest_first())
    assert reason in record.summary


def test_a_bad_request_that_is_not_of_placement_is_an_outage(make_world):
    world = make_world([])
    world.placement.fetch = CandidateSource(Answering(400, NOT_OF_PLACEMENT)).fetch
    with pytest.raises(PlacementUnavailable):
        ask(world)


def test_what_a_message_claimed_is_given_back_if_its_reply_cannot_be_delivered(make_world):
    world, call = make_world(two_hosts()), Call()
    ask(world, call=call)
    call.end_claims(Event.CALLER_GONE)
    assert world.placement.released == ["i1"]
    assert world.hosts.pending.node_of("i1") is None


@pytest.mark.parametrize("call", [None, Call()], ids=["without a message", "with a message"])
def test_what_a_request_claimed_is_released_if_its_reply_cannot_be_made(make_world, monkeypatch, call):
    """Its session releases it, whoever called."""

    def fail(progress, spec):
        raise KeyError("a request group without a provider")

    world = make_world(two_hosts())
    monkeypatch.setattr(Progress, "write_to", fail)
    with pytest.raises(KeyError):
        ask(world, call=call)
    assert len(world.placement.claimed) == 1
    assert world.placement.released == ["i1"]
    assert world.hosts.pending.node_of("i1") is None


def test_a_message_that_claims_nothing_leaves_nothing_to_settle(make_world):
    world, call = make_world(two_hosts()), Call()
    ask(world, uuids=None, call=call)
    call.end_claims(Event.CALLER_GONE)
    assert world.placement.released == []


WANTED = {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 4}


def held(name, **amounts):
    return {uuid_of(name): {"resources": WANTED | amounts}}


def with_past():
    """A call that was delivered before, or whose caller may have left."""
    return Call(past=Past.QUEUED)


@pytest.mark.parametrize("event", [Event.REPLIED, Event.CALLER_GONE])
@pytest.mark.parametrize(
    "second",
    [
        lambda: host_with_candidate("h2"),
        lambda: make_host("h2"),
        lambda: host_with_candidate("h2").disabled(),
        None,
    ],
    ids=["offered", "not offered any more", "does not pass any more", "of another partition"],
)
def test_a_call_with_a_past_is_answered_with_the_host_that_its_instance_holds(make_world, second, event):
    """It releases nothing, whether or not its reply can be delivered."""
    world = make_world([host_with_candidate("h1").ram(8192), *([second()] if second else [])])
    call, world.hosts.others = with_past(), [make_host("h2")]
    world.placement.held = {"i1": held("h2")}
    ((chosen,),) = ask(world, None, call=call)
    assert (chosen.service_host, chosen.cell_uuid) == ("h2", CELL)
    assert json.loads(chosen.allocation_request)["allocations"] == held("h2")
    assert (world.placement.claimed, world.placement.fenced) == ([], [{"i1": held("h2")}])
    assert world.hosts.pending.node_of("i1") == (uuid_of("h2") if second else None)
    call.end_claims(event)
    assert world.placement.released == []


def test_an_evacuated_instance_does_not_go_to_a_host_of_another_partition_that_is_down(make_world):
    """It was evacuated from there before."""
    hosts = [host_with_candidate("h1").ram(8192), make_host("failed").down()]
    world = make_world(hosts)
    world.hosts.others = [make_host("other").down()]
    world.placement.held = {"i1": held("failed") | held("other")}
    spec = make_spec(project_id="p", ignore_hosts=["failed"])
    ((chosen, *_),) = ask(world, spec, call=with_past())
    assert chosen.service_host == "h1"


def test_each_instance_of_a_call_with_a_past_keeps_its_host(make_world):
    world = make_world(two_hosts())
    world.placement.held = {"i1": held("h2"), "i2": held("h1")}
    reply = ask(world, None, uuids=("i1", "i2"), call=with_past())
    assert [row[0].service_host for row in reply] == ["h2", "h1"]
    assert world.placement.fenced == [{"i1": held("h2"), "i2": held("h1")}]
    assert [world.hosts.pending.node_of(uuid) for uuid in ("i1", "i2")] == [uuid_of("h2"), uuid_of("h1")]


def test_if_only_some_instances_hold_a_host_they_are_scheduled_anew(make_world):
    world = make_world(two_hosts())
    world.placement.held = {"i1": held("h2")}
    reply = ask(world, None, uuids=("i1", "i2"), call=with_past())
    assert len(reply) == 2
    assert world.placement.released == ["i1"]
    assert sorted(claim[0] for claim in world.placement.claimed) == ["i1", "i2"]


def test_what_some_instances_hold_is_left_in_doubt_if_another_one_was_deleted(make_world, monkeypatch):
    """The call may have been answered, and the other instance hold nothing since it was deleted."""
    world, noted = make_world(two_hosts()), []
    monkeypatch.setattr(world.placement.doubts, "note_unknown", lambda uuids, *_: noted.extend(uuids))
    world.placement.held, world.placement.states = {"i1": held("h2")}, {"i2": InstanceState.DELETED}
    ask(world, None, uuids=("i1", "i2"), call=with_past())
    assert (world.placement.released, noted) == ([], ["i1", "i2"])


def test_what_some_instances_hold_is_released_as_it_was_read_first(make_world):
    """What another run has fenced since then it may have been answered with."""
    world, generations, released = make_world(two_hosts()), itertools.count(1), []
    world.placement.read = lambda uuids, _context=None: {
        "i1": ConsumerAllocations(held("h2"), next(generations)),
        "i2": ConsumerAllocations(),
    }
    world.placement.release = lambda given, *_: released.extend(given.values()) or set()
    ask(world, None, uuids=("i1", "i2"), call=with_past())
    assert [one.generation for one in released] == [1]


def test_a_call_whose_fence_fails_begins_again(make_world):
    world = make_world(two_hosts())
    world.placement.held = {"i1": held("h2")}
    world.placement.refused_fences = [Written(Outcome.CHANGED, reason="changed")]
    ((chosen,),) = ask(world, None, call=with_past())
    assert (chosen.service_host, len(world.placement.fenced)) == ("h2", 2)


def test_a_request_whose_fence_placement_refuses_releases_its_claim_and_begins_again(make_world):
    world = make_world(two_hosts())
    world.placement.refused_fences = [Written(Outcome.REFUSED, reason="the inventory is smaller now")]
    ((chosen, *_),) = ask(world, None, call=with_past())
    assert (chosen.service_host, len(world.placement.fenced)) == ("h1", 2)
    assert (world.placement.released, len(world.placement.claimed)) == (["i1"], 2)
    assert world.told.events == ["start", "end"]


@pytest.mark.parametrize("final", [False, True])
def test_what_an_instance_holds_and_placement_refuses_ends_the_request(make_world, final):
    world = make_world(two_hosts())
    world.placement.held = {"i1": held("h2")}
    world.placement.refused_fences = [Written(Outcome.REFUSED, reason="smaller", final=final)]
    with pytest.raises(NoValidHost):
        ask(world, None, call=with_past())
    assert (len(world.placement.fenced), world.placement.released) == (1, [])


def test_a_call_that_is_overtaken_all_the_time_ends_with_an_error_and_keeps_what_others_fenced(make_world):
    world = make_world(two_hosts())
    world.placement.held = {"i1": held("h2"), "i2": held("h1")}
    world.placement.refused_fences = [Written(Outcome.CHANGED, reason="changed")] * 9
    with pytest.raises(AllocationUpdateFailed):
        ask(world, None, uuids=("i1", "i2"), call=with_past())
    assert (world.placement.claimed, world.placement.released) == ([], [])


@pytest.mark.parametrize(
    ("allocations", "fields"),
    [
        ({}, {}),
        ({"i1": held("h2", VCPU=3)}, {}),
        ({"i1": held("h2") | held("h1")}, {}),
        ({"i1": held("h2")}, {"ignore_hosts": ["h2"]}),
        ({"i1": held("unknown")}, {}),
    ],
    ids=["nothing held", "another flavor", "two hosts", "the evacuated host", "no such host"],
)
def test_a_call_with_a_past_that_holds_nothing_of_use_is_scheduled_anew(make_world, allocations, fields):
    world = make_world(two_hosts())
    world.placement.held = allocations
    reply = ask(world, make_spec(project_id="p", **fields), call=with_past())
    assert reply[0][0].service_host == "h1"


@pytest.mark.parametrize("state", sorted(OVER, key=str))
def test_a_call_whose_caller_has_left_claims_nothing(make_world, state, monkeypatch):
    """What its instances hold is looked at later, and has its owner."""
    world, call, noted, owners = make_world(two_hosts()), with_past(), [], []

    def note(uuids, owner, _kept):
        noted.extend(uuids)
        owners.append((owner.project_id, owner.user_id))

    monkeypatch.setattr(world.placement.doubts, "note_unknown", note)
    world.placement.state, world.placement.held = state, {"i1": held("h2")}
    with pytest.raises(CallerLeft):
        ask(world, make_spec(project_id="p", user_id="u"), call=call)
    assert (world.placement.claimed, world.placement.released, noted) == ([], [], ["i1"])
    assert owners == [("p", "u")]
    assert call.dropped


@pytest.mark.parametrize(
    ("state", "call", "fenced"),
    [
        (InstanceState.MISSING, with_past, 1),
        (InstanceState.UNKNOWN, with_past, 1),
        (InstanceState.GIVEN_UP, Call, 0),
    ],
    ids=["missing", "unknown", "of a call without a past, which asks nobody"],
)
def test_a_call_of_which_nova_cannot_tell_is_served(make_world, state, call, fenced):
    world = make_world(two_hosts())
    world.placement.state = state
    assert ask(world, None, call=call())
    assert len(world.placement.fenced) == fenced


def test_a_call_that_waited_long_for_a_thread_is_not_answered_if_its_caller_has_left(make_world):
    world = make_world(two_hosts())
    world.placement.state = InstanceState.GIVEN_UP
    with pytest.raises(CallerLeft):
        ask(world, None, call=Call(received=time.monotonic() - 9.0))
    assert world.placement.released == ["i1"]


def in_conflict(*names):
    allocations = {uuid: entry for name in names for uuid, entry in held(name).items()}
    return Written(
        Outcome.CHANGED, reason="held by another request", held=ConsumerAllocations(allocations, 1)
    )


HELD = in_conflict("h2")


def test_a_request_is_answered_with_what_its_instance_holds_by_another_request(make_world):
    """The other request ended after the first look, and before the claim."""
    world = make_world(two_hosts(), {uuid_of("h1"): HELD})
    world.placement.before_a_claim = lambda: world.placement.held.update(i1=held("h2"))
    ((chosen,),) = ask(world, None, call=Call())
    assert chosen.service_host == "h2"
    assert world.told.events == ["start"]


def test_a_request_begins_again_if_what_it_met_is_released_meanwhile(make_world):
    """Each of two runs can meet claims of the other one, and release its own."""
    world = make_world(two_hosts())
    answers = iter([HELD])
    world.placement.answer = lambda _request: next(answers, Written(Outcome.DONE))
    ((chosen, *_),) = ask(world, None, call=Call())
    assert chosen.service_host == "h1"


def test_a_request_that_the_stop_interrupts_fails_with_an_error_of_its_own(make_world):
    stopped = Written(Outcome.STOPPING, reason="the scheduler is stopping")
    world = make_world(two_hosts(), {uuid_of("h1"): Written(Outcome.DONE), uuid_of("h2"): stopped})
    with pytest.raises(ReturnedToBroker, match="is stopping"):
        ask(world, make_spec(project_id="p", num_instances=2), uuids=("i1", "i2"))
    assert world.placement.released == ["i1"]


def test_a_request_whose_instance_holds_what_would_not_do_by_another_request_is_refused(make_world):
    world = make_world(two_hosts(), {uuid_of("h1"): HELD})
    world.placement.held = {"i1": held("h2", VCPU=3)}
    with pytest.raises(AllocationUpdateFailed):
        ask(world)
    assert world.placement.claimed == []


def three_hosts():
    return [host_with_candidate(name).ram(ram) for name, ram in (("h1", 4096), ("h2", 4096), ("h3", 8192))]


def test_a_repeated_evacuation_is_answered_with_the_host_that_the_first_one_got(make_world):
    world = make_world(three_hosts(), {uuid_of("h3"): in_conflict("h1", "h2")})
    world.placement.held = {"i1": held("h1") | held("h2")}
    reply = ask(world, make_spec(project_id="p", ignore_hosts=["h1"]))
    assert [row[0].service_host for row in reply] == ["h2"]


def conflict_unless_h2_is_kept(request):
    if uuid_of("h2") in request.kept:
        return Written(Outcome.DONE)
    return in_conflict("h1", "h2")


def test_an_evacuation_keeps_what_an_earlier_one_left_on_a_host_that_does_not_pass(make_world):
    hosts = three_hosts()
    hosts[1].disabled()
    world = make_world(hosts)
    world.placement.held = {"i1": held("h1") | held("h2")}
    world.placement.answer = conflict_unless_h2_is_kept
    reply = ask(world, make_spec(project_id="p", ignore_hosts=["h1"]))
    assert [row[0].service_host for row in reply] == ["h3"]
    assert world.placement.claimed[0][-1] == {uuid_of("h1"), uuid_of("h2")}
    assert world.told.events == ["start", "end"]


def test_what_an_earlier_evacuation_left_is_kept_also_if_the_caller_leaves_after_the_fence(
    make_world, monkeypatch
):
    hosts = three_hosts()
    hosts[1].disabled()
    world, noted = make_world(hosts), []
    world.placement.held = {"i1": held("h1") | held("h2")}
    world.placement.answer = conflict_unless_h2_is_kept
    fence = world.placement.fence

    def fence_and_leave(*arguments):
        world.placement.state = InstanceState.GIVEN_UP
        return fence(*arguments)

    monkeypatch.setattr(world.placement, "fence", fence_and_leave)
    monkeypatch.setattr(
        world.placement.doubts,
        "note_unknown",
        lambda uuids, _owner, kept: noted.extend([kept] if uuids else []),
    )
    with pytest.raises(CallerLeft):
        ask(world, make_spec(project_id="p", ignore_hosts=["h1"]), call=with_past())
    assert [each.providers for each in noted] == [{uuid_of("h1"), uuid_of("h2")}]


def test_a_request_that_is_delivered_once_does_not_read_what_its_instance_holds(make_world):
    world = make_world(two_hosts())
    world.placement.held = {"i1": held("h2")}
    assert ask(world, None, call=Call())[0][0].service_host == "h1"


@pytest.mark.parametrize("forever", [0, -1])
def test_callers_without_a_timeout(make_world, conf, forever):
    conf.set_override("long_rpc_timeout", forever)
    assert ask(make_world([host_with_candidate("h1")]))


def test_a_request_that_ends_after_its_deadline_keeps_nothing(make_world, conf, caplog):
    clock = Clock()
    world = make_world([host_with_candidate("h1")], clock=clock)
    world.placement.before_a_claim = lambda: setattr(clock, "now", clock.now + conf.long_rpc_timeout + 1)
    with pytest.raises(NoValidHost, match="its caller has given up by now"):
        ask(world)
    assert [uuid for uuid, *_ in world.placement.claimed] == world.placement.released == ["i1"]
    assert world.hosts.pending.node_of("i1") is None
    assert "Request expired" in caplog.text


def test_a_call_with_a_past_that_comes_after_its_deadline_claims_nothing(make_world, monkeypatch):
    """What its instances hold is looked at later."""
    world, noted = make_world(two_hosts(), clock=Clock(1e6)), []
    monkeypatch.setattr(world.placement.doubts, "note_unknown", lambda uuids, *_: noted.extend(uuids))
    call = Call(received=0.0, past=Past.QUEUED)
    with pytest.raises(NoValidHost, match="its caller has given up by now"):
        ask(world, None, call=call)
    assert (world.placement.claimed, world.placement.queries, noted) == ([], [], ["i1"])


def test_an_answer_that_cannot_be_made_leaves_nothing(make_world):
    world = make_world([host_with_candidate("h1")])
    with (
        mock.patch("scheduler.manager.as_dicts", side_effect=ZeroDivisionError),
        pytest.raises(ZeroDivisionError),
    ):
        ask(world, return_objects=False, call=(call := Call()))
    call.end_claims(Event.CALLER_GONE)  # as the dispatcher does after an error
    assert world.placement.released == ["i1"]
    assert world.hosts.pending.node_of("i1") is None


def test_no_end_is_told_of_a_failure_and_nothing_released(make_world):
    world = make_world([host_with_candidate("h1")], {uuid_of("h1"): REFUSED})
    with pytest.raises(NoValidHost, match="There are not enough hosts available"):
        ask(world)
    assert (world.told.events, world.placement.released) == (["start"], [])


def test_a_prefilter_that_refuses(make_world, conf):
    conf.set_override("limit_tenants_to_placement_aggregate", True, "scheduler")
    conf.set_override("placement_aggregate_required_for_tenants", True, "scheduler")
    world = make_world(two_hosts())
    with pytest.raises(RequestFilterFailed, match="Scheduling failed: No hosts available for tenant"):
        ask(world)
    assert world.placement.queries == []


def test_dictionaries_for_callers_that_want_no_objects(make_world):
    assert ask(make_world(two_hosts()), return_objects=False) == [
        {"host": "h1", "nodename": "h1", "limits": {}}
    ]


def test_a_node_that_the_table_lacks_is_looked_for(make_world):
    new = host_with_candidate("new").ram(16384)
    reply = ask(make_world(two_hosts(), unknown=[new]))
    assert reply[0][0].service_host == "new"


def test_a_forced_host_is_looked_up_and_asked_for_alone(make_world):
    world = make_world(two_hosts())
    ask(world, make_spec(project_id="p", force_hosts=["h2"]))
    assert world.hosts.looked_up == [("h2", None)]
    assert f"in_tree={uuid_of('h2')}" in world.placement.queries[0][0]


def crowded(make_world, unknown=True):
    """Placement's answer ends before the one host that passes; ``unknown``: it names a provider that is none."""
    full, good = host_with_candidate("full").set(num_io_ops=99), host_with_candidate("good")
    world = make_world([full, good])
    del world.placement.offer[uuid_of("good")]
    if unknown:
        world.placement.offer[uuid_of("gone")] = tuple(host_with_candidate("gone").candidates)
    world.placement.beyond_limit = {uuid_of("good"): tuple(good.candidates)}
    return world


@pytest.fixture
def few_io_ops(conf):
    conf.set_override("enabled_filters", ["IoOpsFilter"], "filter_scheduler")


@pytest.mark.usefixtures("few_io_ops")
def test_hosts_that_unknown_providers_crowd_out_are_asked_for(make_world, caplog):
    caplog.set_level("INFO")
    world = crowded(make_world)
    assert [one.service_host for one in ask(world)[0]] == ["good"]
    assert ["limit=" in query for (query,) in world.placement.queries] == [True, False]
    assert world.told.events == ["start", "end"]
    assert "No host of Placement's limited answer is left; querying Placement without a limit" in caplog.text


@pytest.mark.usefixtures("few_io_ops")
def test_a_decision_tells_of_the_answer_without_a_limit_that_it_was_made_by(make_world):
    world = crowded(make_world)
    world.placement.offer |= {uuid_of("gone too"): tuple(host_with_candidate("gone too").candidates)}
    ask(world)
    found = decode(world.manager.decisions.memory.find("i1")).candidates
    assert (found.hosts, found.known, found.truncated) == (4, 2, False)


@pytest.mark.usefixtures("few_io_ops")
@pytest.mark.parametrize(
    ("unknown", "whole"), [(False, False), (True, True)], ids=["hosts alone", "all hosts"]
)
def test_an_answer_of_hosts_alone_or_of_all_hosts_is_not_asked_for_again(make_world, unknown, whole):
    world = crowded(make_world, unknown)
    if whole:
        world.placement.beyond_limit = {}
    with pytest.raises(NoValidHost):
        ask(world)
    assert len(world.placement.queries) == 1


def test_nothing_more_is_asked_for_while_a_host_is_left(make_world):
    world = crowded(make_world)
    assert [one.service_host for one in ask(world)[0]] == ["full"]
    assert len(world.placement.queries) == 1


REBUILD = {"scheduler_hints": {"_nova_check_type": ["rebuild"]}}


def test_a_rebuild_is_checked_on_its_host_and_claims_nothing(make_world):
    world = make_world(two_hosts())
    reply = ask(world, make_spec(**REBUILD, force_hosts=["h2"], force_nodes=["h2"]), return_alternates=False)
    assert [one.service_host for one in reply[0]] == ["h2"]
    assert reply[0][0].allocation_request == "null"
    assert (world.placement.queries, world.placement.claimed) == ([], [])
    assert world.told.events == ["start", "end"]


def test_a_boot_with_the_rebuild_hint_of_a_user_is_claimed(make_world):
    world = make_world(two_hosts())
    ask(world, make_spec(project_id="p", **REBUILD), return_alternates=False)
    assert len(world.placement.claimed) == 1


def test_without_uuids_hosts_are_chosen_and_nothing_is_claimed(make_world):
    world = make_world(two_hosts())
    reply = ask(world, make_spec(project_id="p", num_instances=2), uuids=None, return_alternates=False)
    assert len(reply) == 2
    assert {one.allocation_request for (one,) in reply} == {"null"}
    assert world.placement.claimed == []


def test_an_evacuation_says_where_the_instance_comes_from(make_world):
    world = make_world(two_hosts())
    ask(world, make_spec(project_id="p", ignore_hosts=["H1"]))
    assert world.placement.claimed[0][-1] == {uuid_of("h1")}
    (record,) = map(decode, world.manager.decisions.memory.latest_first())
    assert record.kind == "evacuation"


def of_group(policy, members=("member",), hosts=()):
    """The request of an instance of a group."""
    made = group(uuid=uuid_of("group"), policy=policy, policies=[policy], members=[*members], hosts=[*hosts])
    return make_spec(project_id="p", instance_group=made)


def hosts_of_members(world, policy, members, hosts=()):
    """The hosts of members that are asked for at once."""
    with ThreadPoolExecutor(len(members)) as pool:
        replies = pool.map(lambda one: ask(world, of_group(policy, members, hosts), [one]), members)
        return {reply[0][0].service_host for reply in replies}


def test_an_affinity_group_is_where_its_members_are_now(make_world):
    hosts = two_hosts()
    hosts[1].holding("member")
    reply = ask(make_world(hosts), of_group("affinity", hosts=["h1"]))
    assert [one.service_host for one in reply[0]] == ["h2"]


@pytest.mark.parametrize(
    ("policy", "member_on", "chosen"),
    [
        ("affinity", "h1", "h1"),
        ("affinity", "h2", "h2"),
        ("anti-affinity", "h1", "h2"),
        ("anti-affinity", "h2", "h1"),
        ("soft-affinity", "h2", "h1"),
    ],
)
def test_a_member_that_another_scheduler_placed_meanwhile_is_met_after_the_claim(
    make_world, policy, member_on, chosen
):
    """No table has the member yet, so the host with most room is claimed first."""
    world = make_world(two_hosts())
    world.placement.before_a_claim = lambda: world.placement.held.update(member=held(member_on))
    reply = ask(world, of_group(policy))
    assert reply[0][0].service_host == chosen
    assert world.placement.held["i1"].keys() == {uuid_of(chosen)}
    assert world.placement.released == ["i1"] * (chosen == "h2")


@pytest.mark.parametrize(
    ("policy", "holder", "hosts", "final"),
    [
        ("affinity", "h1", [], True),
        ("affinity", None, ["h1"], True),
        ("affinity", None, [], False),
        ("affinity", None, ["host of another partition"], False),
        ("anti-affinity", "h1", [], False),
        ("soft-affinity", "h1", [], False),
    ],
)
@pytest.mark.parametrize("offered", [True, False])
def test_a_refusal_holds_for_all_hosts_of_the_cloud_if_a_member_of_an_affinity_group_is_here(
    make_world, monkeypatch, policy, holder, hosts, final, offered
):
    """The host of the member has no room, so no other partition may place one more."""
    here = host_with_candidate("h1").disabled() if offered else make_host("h1")
    if holder:
        here.holding("member")
    monkeypatch.setattr(PartitionHosts, "name", "p")
    with pytest.raises(NoValidHost) as refused:
        ask(make_world([here]), of_group(policy, hosts=hosts))
    assert refused.value.final is final


def test_without_partitions_a_refused_group_is_waited_for_once(make_world, monkeypatch):
    """What only a router wants to know costs no second turn of the group."""
    world, turns, turn = (
        make_world([host_with_candidate("h1").disabled().holding("member")]),
        [],
        LiveWorld.turn,
    )
    monkeypatch.setattr(LiveWorld, "turn", lambda self, request: turns.append(request) or turn(self, request))
    with pytest.raises(NoValidHost):
        ask(world, of_group("affinity", hosts=["h1"]))
    assert len(turns) == 1


def test_members_of_a_soft_affinity_group_that_are_asked_for_at_once_share_a_host(make_world, conf):
    """Each first choice is random, so members that do not know of each other go to different hosts."""
    conf.set_override("shuffle_best_same_weighed_hosts", True, "filter_scheduler")
    conf.set_override("soft_affinity_weight_multiplier", 5.0, "filter_scheduler")
    members = [f"i{number}" for number in range(4)]
    world = make_world([host_with_candidate(f"h{number}").ram(65536) for number in range(8)])
    add, meeting = world.hosts.pending.add, threading.Barrier(len(members))

    def add_once_all_have_chosen(*arguments):
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait(0.5)  # nobody else comes while one member is served after the other
        return add(*arguments)

    world.hosts.pending.add = add_once_all_have_chosen

    assert len(hosts_of_members(world, "soft-affinity", members)) == 1


def test_members_of_an_affinity_group_go_where_the_first_of_them_gets_room(make_world):
    """Those that saw its first choice, which Placement refuses, would be left without a host."""
    hosts, members = [host_with_candidate(f"h{n}").ram(65536 - n) for n in (1, 2, 3)], ["i1", "i2", "i3"]
    world, meeting = make_world(hosts, {uuid_of("h1"): REFUSED}), threading.Barrier(len(members))

    def claim_once_all_have_chosen():
        with contextlib.suppress(threading.BrokenBarrierError):
            meeting.wait(0.5)  # nobody else comes while the first one is served

    world.placement.before_a_claim = claim_once_all_have_chosen

    assert hosts_of_members(world, "affinity", members) == {"h2"}


@pytest.mark.parametrize("policy", ["affinity", "soft-affinity"])
def test_no_member_of_a_group_waits_until_placement_has_taken_the_claim_of_another(make_world, policy):
    """Each would keep a thread, until all other requests wait for one. Of an affinity group it is not the first."""
    world, meeting = make_world(two_hosts()), threading.Barrier(2)
    hosts = ["h1"] if policy == "affinity" else []
    world.manager.world.groups._lock_timeout = 600.0
    world.placement.before_a_claim = lambda: meeting.wait(20)

    assert len(hosts_of_members(world, policy, ["i1", "i2"], hosts)) == 1


def test_the_cell_of_the_destination_is_kept_to(make_world):
    hosts = two_hosts()
    hosts[0].cell(OTHER_CELL)
    wanted = objects.Destination(cell=objects.CellMapping(uuid=CELL))
    reply = ask(make_world(hosts), make_spec(project_id="p", requested_destination=wanted))
    assert [one.service_host for one in reply[0]] == ["h2"]


def test_after_a_reload_the_new_options_apply(make_world, conf):
    world = make_world(two_hosts())
    conf.set_override("enabled_filters", ["NoSuchFilter"], "filter_scheduler")
    with pytest.raises(Exception, match="NoSuchFilter"):
        world.manager.reset()
    assert ask(world)[0][0].service_host == "h1"
    conf.set_override("enabled_filters", [], "filter_scheduler")
    conf.set_override("weight_classes", [], "filter_scheduler")
    conf.set_override("max_attempts", 1, "scheduler")
    world.manager.reset()
    assert len(ask(world)[0]) == 1


def test_the_rules_in_use_are_logged(make_world, conf, caplog):
    caplog.set_level("INFO")
    conf.set_override("enabled_filters", ["ComputeFilter", "ServerGroupAffinityFilter"], "filter_scheduler")
    conf.set_override("weight_classes", ["nova.scheduler.weights.ram.RAMWeigher"], "filter_scheduler")
    make_world(two_hosts())
    assert "Filters: ComputeFilter, ServerGroupAffinityFilter" in caplog.text
    assert "Weighers: RAMWeigher" in caplog.text


def test_aggregates_are_asked_anew_for_each_request(make_world):
    world = make_world(two_hosts())
    world.hosts._aggregates = Aggregates()
    ask(world, make_spec(project_id="p", availability_zone="nowhere"))
    assert "member_of" not in world.placement.queries[0][0]


@pytest.mark.parametrize(
    ("zone", "zones", "noted"),
    [
        ("az77", ["a"], True),
        ("a", ["a"], False),
        ("nova", ["a"], True),
        ("nova", [], False),
        (None, ["a"], False),
    ],
    ids=["unknown", "known", "default, among others", "default, alone", "none"],
)
def test_a_zone_that_restricts_nothing_is_said_to_do_so(make_world, caplog, zone, zones, noted):
    caplog.set_level("INFO")
    world = make_world([*two_hosts(), *(host_with_candidate(f"in-{name}").az(name) for name in zones)])
    for instance in ("i1", "i2"):
        ask(world, make_spec(project_id="p", availability_zone=zone), uuids=(instance,))
    text = f"No aggregate is availability zone {zone}: hosts of any zone may be chosen"
    for record in map(decode, world.manager.decisions.memory.latest_first()):
        assert record.notes == ([text] if noted else [])
    assert caplog.messages.count(text) == noted  # not for each request


def test_a_request_takes_one_snapshot_of_the_hosts_read_after_its_arrival(make_world):
    world = make_world([host_with_candidate("h1")])
    ask(world)
    assert (world.hosts.snapshots, world.hosts.ages) == ([None], [0.0])


def test_the_table_is_asked_for_as_of_the_arrival_of_the_request(make_world):
    clock = Clock(7.0)
    world = make_world([host_with_candidate("h1")], clock=clock)
    fetch = world.placement.fetch

    def slow(queries, context):
        clock.now += 5
        return fetch(queries, context)

    world.placement.fetch = slow
    ask(world)
    assert world.hosts.arrivals == [7.0]


class Mirrored:
    """A mirror that was refreshed, of nodes with room for everything, and the Placement that it checks hosts in.

    Attributes:
        providers: Placement.
        mirror: The mirror.
        asked: The uuids of the nodes that were looked at in Placement since then.
    """

    def __init__(self, names):
        self.providers = Placement()
        for name in names:
            totals = {"MEMORY_MB": 65536, "VCPU": 64, "DISK_GB": 999}
            inventories = {name: {"total": total} for name, total in totals.items()}
            node = make_node(uuid_of(name), inventories=inventories, traits={"OWNER_NOVA"})
            node.unchanged_for = 3600.0
            self.providers.providers[node.uuid] = node
        self.mirror = CandidateMirror(self.providers, lambda: 8.0)
        self.mirror.run_round()
        self.providers.asked.clear()

    def node(self, name):
        return self.providers.providers[uuid_of(name)]

    @property
    def asked(self):
        return [path.split("/")[2] for path in self.providers.asked]


def mirrored_hosts():
    return [host.set(total_usable_ram_mb=8192, total_usable_disk_gb=100) for host in two_hosts()]


@pytest.fixture
def mirrored():
    return Mirrored(["h1", "h2"])


def test_a_request_is_served_from_the_mirror_and_its_host_is_looked_at(make_world, mirrored):
    world = make_world(mirrored_hosts(), mirror=mirrored.mirror)
    reply = ask(world)
    assert [one.service_host for one in reply[0]] == ["h1", "h2"]
    assert (world.placement.queries, mirrored.asked) == ([], [uuid_of("h1")])
    assert world.told.events == ["start", "end"]
    assert decode(world.manager.decisions.memory.find("i1")).candidates.source == "mirror"


def test_a_host_that_has_changed_in_placement_is_not_claimed(make_world, mirrored, caplog):
    caplog.set_level("INFO")
    mirrored.node("h1").change(inventories={"MEMORY_MB": {"total": 1}})
    world = make_world(mirrored_hosts(), mirror=mirrored.mirror)
    assert [one.service_host for one in ask(world)[0]] == ["h2", "h1"]
    assert [root for _, root, *_ in world.placement.claimed] == [uuid_of("h2")]
    assert "Claim for instance i1 on host h1 refused (changed in Placement since the mirror was read: " in (
        caplog.text
    )
    assert b"changed in Placement" in world.manager.decisions.memory.find("i1")


def test_the_hosts_of_several_instances_are_looked_at_together(make_world, mirrored):
    mirrored.node("h1").change(inventories={"MEMORY_MB": {"total": 1}})
    world = make_world(mirrored_hosts(), mirror=mirrored.mirror)
    reply = ask(world, make_spec(project_id="p", num_instances=3), uuids=["i1", "i2", "i3"])
    assert {one[0].service_host for one in reply} == {"h2"}
    assert world.placement.queries == []


def test_what_is_claimed_again_after_a_release_is_fenced(make_world, mirrored):
    """A try of the release may come late, and expect the generation that the instance has once more."""
    world = make_world(mirrored_hosts(), mirror=mirrored.mirror)
    refuses = lambda request: request.uuid == "i2" and not world.placement.queries  # noqa: E731
    world.placement.answer = lambda each: REFUSED if refuses(each) else Written(Outcome.DONE)
    assert len(ask(world, make_spec(project_id="p", num_instances=2), uuids=["i1", "i2"])) == 2
    assert world.placement.released == ["i1"]
    assert [sorted(each) for each in world.placement.fenced] == [["i1", "i2"]]


def test_a_request_that_claims_nothing_asks_placement(make_world, mirrored):
    world = make_world(mirrored_hosts(), mirror=mirrored.mirror)
    ask(world, uuids=None)
    assert (len(world.placement.queries), mirrored.asked) == (1, [])


def test_placement_is_asked_before_a_request_fails_for_want_of_hosts(make_world):
    world = make_world(mirrored_hosts(), mirror=Mirrored([]).mirror)
    reply = ask(world)
    assert reply[0][0].service_host == "h1"
    assert len(world.placement.queries) == 1
    assert world.told.events == ["start", "end"]


def test_without_an_answer_about_the_host_placement_is_asked(make_world, mirrored):
    mirrored.providers.failures[f"/resource_providers/{uuid_of('h1')}"] = PlacementUnreachable("down")
    world = make_world(mirrored_hosts(), mirror=mirrored.mirror)
    ask(world)
    assert len(world.placement.queries) == 1


def test_the_second_look_at_placement_reads_the_hosts_anew(make_world, conf):
    conf.set_override("host_state_max_age", 5.0, "berth")
    clock, mirror = Clock(7.0), Mirrored([]).mirror
    find = mirror.find

    def find_in_two_seconds(queries):
        clock.now = 9.0
        return find(queries)

    mirror.find = find_in_two_seconds
    world = make_world(mirrored_hosts(), mirror=mirror, clock=clock)
    ask(world)
    assert list(zip(world.hosts.ages, world.hosts.arrivals, strict=True)) == [(None, 7.0), (0.0, 9.0)]


def test_hosts_are_read_while_placement_is_asked(conf, monkeypatch):
    begun = []
    conf.set_override("connection", "sqlite://", "api_database")
    conf.set_override("connection", "sqlite://", "database")
    conf.set_override("auth_type", "none", "placement")
    monkeypatch.setattr(HostInventory, "begin_reading", lambda self: begun.append("hosts"))
    monkeypatch.setattr(
        PlacementClient, "get", lambda self, path, *_, **__: begun.append(path) or Reply(404, b"")
    )
    put_together(conf, Outside.from_conf(conf)).candidates.fetch(
        [Query((), "resources=VCPU%3A1", None)], None
    )
    assert begun == ["hosts", "/allocation_candidates?resources=VCPU%3A1"]


def test_before_the_second_look_all_that_was_claimed_is_released(make_world, mirrored):
    """Four of five instances, say, are claimed by the mirror, and the fifth is refused."""
    events = []
    world = make_world(mirrored_hosts(), mirror=mirrored.mirror)
    refused = [Written(Outcome.DONE), REFUSED, REFUSED, REFUSED]
    world.placement.answer = lambda request: refused.pop(0) if refused else Written(Outcome.DONE)
    release, fetch = world.placement.release, world.placement.fetch
    world.placement.release = lambda held, *rest: events.extend(held) or release(held, *rest)
    world.placement.fetch = lambda queries, context: events.append("ask") or fetch(queries, context)
    ask(world, make_spec(project_id="p", num_instances=2), uuids=["i1", "i2"])
    assert events[:2] == ["i1", "ask"]


def test_a_refused_host_of_the_mirror_is_not_tried_by_the_next_request(make_world, mirrored):
    gone = Written(Outcome.GONE, provider=uuid_of("h1"))
    world = make_world(mirrored_hosts(), {uuid_of("h1"): gone}, mirror=mirrored.mirror)
    for uuid in ("i1", "i2"):
        assert ask(world, uuids=[uuid])[0][0].service_host == "h2"
    assert mirrored.asked == [uuid_of("h1"), uuid_of("h2"), uuid_of("h2")]


@pytest.mark.parametrize(("ignored", "ages"), [(None, [None]), (["gone"], [0.0])], ids=["boot", "evacuation"])
def test_requests_that_move_an_instance_read_the_hosts_anew(make_world, mirrored, ignored, ages):
    world = make_world(mirrored_hosts(), mirror=mirrored.mirror)
    ask(world, make_spec(project_id="p", ignore_hosts=ignored))
    assert world.hosts.ages[-1:] == ages


def away(world):
    """A world whose cell is away: Placement offers its host, and the table lacks it."""
    world.hosts.complete = lambda table, uuids: world.hosts.table
    return world


def test_after_the_recovery_of_a_cell_its_hosts_are_chosen(make_world):
    world = away(make_world([], unknown=[host_with_candidate("h9")]))

    def recovered(cell_uuid):
        world.hosts.table = world.hosts.whole
        return True

    world.hosts.recovery = recovered
    reply = ask(world)
    assert [one.service_host for one in reply[0]] == ["h9"]
    assert world.told.events == ["start", "end"]


def test_a_refusal_by_known_hosts_asks_for_no_recovery(make_world):
    def recovery(cell_uuid):
        raise AssertionError("the table lacks no host")

    world = make_world([host_with_candidate("h1")], {uuid_of("h1"): REFUSED})
    world.hosts.recovery = recovery
    with pytest.raises(NoValidHost):
        ask(world)


def failure_line(world, caplog, **request):
    """The line about a request that fails."""
    caplog.set_level("INFO", "nova.scheduler")
    with pytest.raises(BerthError):
        ask(world, **request)
    (line,) = [text for text in caplog.messages if text.startswith("No host for instance i1: ")]
    _, numbers, reason = re.fullmatch(
        r"(No host for instance i1): (.*? ms(?:, [\w:; ]*\d)?): (.*)", line
    ).groups()
    assert "-> " in numbers
    reason = reason.removeprefix("No valid host was found. ").removeprefix(f"{NOT_ENOUGH} ")
    return re.sub(r" \[\w+\]$", "", reason)


def test_the_line_on_a_failure_ends_with_the_code_of_its_cause(make_world, caplog):
    failure_line(make_world(two_hosts()), caplog, spec=make_spec(project_id="p", ignore_hosts=["h1", "h2"]))
    (line,) = [text for text in caplog.messages if text.startswith("No host for instance")]
    assert line.endswith(" [excluded]")


def test_a_failure_by_a_weigher_is_explained(make_world, conf, caplog):
    conf.set_override("weight_setting", ["cpu.load=1.0"], "metrics")
    assert "ComputeHostMetricNotFound: Metric cpu.load could not be found" in failure_line(
        make_world(two_hosts()), caplog
    )


def test_a_request_leaves_a_record(make_world):
    world = make_world(two_hosts())
    ask(world)
    record = decode(world.manager.decisions.memory.find("i1"))
    assert record.candidates.source == "placement"
    assert record.candidates.hosts == 2
    assert record.chosen == [Chosen("i1", Place("h1", "h1"), [Place("h2", "h2")])]
    assert record.request_id
    assert set(record.milliseconds) >= {"query", "placement", "total"}
    assert record.error is None


# -- several schedulers


@pytest.fixture
def share(make_world):
    """A function that makes schedulers of three hosts that share their decisions."""
    broker = FakeBroker()
    with contextlib.ExitStack() as stack:

        def make(vcpus=16, **options):
            hosts = [
                host_with_candidate(name).ram(ram).vcpus(vcpus)
                for name, ram in (("h1", 9000), ("h2", 8000), ("h3", 7000))
            ]
            world = make_world(hosts, broker=broker, **options)
            stack.callback(world.manager.stream.stop)
            stack.callback(world.manager.outages.stop)
            world.manager.catch_up()
            return world

        yield make


def pending_at(world):
    return {instance: world.hosts.pending.node_of(instance) for instance in ("i1", "i2")}


def test_what_one_scheduler_claims_is_pending_in_another_that_runs_or_starts_later(share):
    one, another = share(), share()
    chosen = ask(one)[0][0].compute_node_uuid
    assert eventually(lambda: another.hosts.pending.node_of("i1") == chosen)
    assert share().hosts.pending.node_of("i1") == chosen


def test_a_claim_that_is_refused_or_given_back_is_pending_nowhere(share):
    one, another = share(answers={uuid_of(f"h{n}"): REFUSED for n in (1, 2, 3)}), share()
    with pytest.raises(NoValidHost):
        ask(one)
    last = ask(share(), uuids=("i2",))[0][0].compute_node_uuid
    assert eventually(lambda: pending_at(another) == {"i1": None, "i2": last})


def test_a_scheduler_says_goodbye_whatever_the_time_that_it_has_to_stop(share):
    one, another = share(), share()
    assert eventually(lambda: len(one.manager.stream.membership.alive()) == 2)
    for part in ("outages", "_claims", "notifications", "decisions", "_mirror", "hosts"):
        setattr(another.manager, part, mock.Mock())
    another.manager.stop(lambda: 0)
    assert eventually(lambda: len(one.manager.stream.membership.alive()) == 1)


def test_a_scheduler_without_others_checks_claims_on_nearly_full_hosts(share):
    """Conductors claim alternates, and nova-schedulers claim during a swap; neither is in the stream."""
    world, used = share(vcpus=4), {uuid_of("h1"): 17}

    def get(path, *_args):
        *_, provider, what = path.split("/")
        inventories = {"VCPU": {"total": 4, "reserved": 0, "allocation_ratio": 4.0}}
        answers = {"inventories": inventories, "usages": {"VCPU": used.get(provider, 16)}}
        return Reply(200, json.dumps({what: answers[what], "resource_provider_generation": 1}).encode())

    world.placement.get = get
    world.placement.answer = lambda request: Written(
        Outcome.DONE, held=ConsumerAllocations(request.candidate.allocations, 1)
    )
    assert world.manager.stream.status().schedulers == 1
    assert ask(world)[0][0].service_host == "h2"
    assert [root for _, root, *_ in world.placement.claimed] == [uuid_of("h1"), uuid_of("h2")]
    assert world.placement.released == ["i1"]


def test_casts(make_world):
    world = make_world(two_hosts())
    api = world.hosts.api = mock.Mock()
    world.manager.reread_aggregates()
    assert api.mock_calls == [mock.call.begin_reading()]
    ask(world)
    world.manager.reread_instances(["i9"])
    assert world.hosts.pending.node_of("i1")
    world.manager.forget_instance("i1")
    assert not world.hosts.pending.node_of("i1")
    assert world.hosts.instances.reread == ["i9", "i1"]


def test_an_instance_that_a_compute_reports_as_deleted_is_pending_nowhere(share):
    one, another, third = share(), share(), share()
    ask(one)
    assert eventually(lambda: another.hosts.pending.node_of("i1"))
    third.manager.forget_instance("i1")
    assert eventually(lambda: not another.hosts.pending.node_of("i1") and not one.hosts.pending.node_of("i1"))


def test_the_state_shows_whether_decisions_are_shared(share, make_world):
    alone = make_world(two_hosts()).manager
    assert (alone.stream.status().wanted, alone.stream.status().schedulers) == (False, 1)
    assert share().manager.stream.status().in_step


def filter_lines(caplog):
    return [
        record.getMessage().split(" for the request")[0]
        for record in caplog.records
        if record.name == "nova.filters" and record.levelname == "INFO"
    ]


def test_no_filter_is_blamed_if_placement_has_no_candidate(make_world, caplog):
    """Operators take these lines as proof that Placement offered hosts and a filter rejected them."""
    caplog.set_level("INFO")
    world = make_world([make_host("h1")], mirror=Mirrored([]).mirror)
    with pytest.raises(NoValidHost):
        ask(world)
    assert len(world.placement.queries) == 1
    assert filter_lines(caplog) == []


def test_what_filters_reject_is_logged_once_for_a_request(make_world, mirrored, caplog):
    """Both passes reject the hosts: that over the mirror, and that over Placement's answer."""
    caplog.set_level("INFO")
    world = make_world([host.disabled() for host in mirrored_hosts()], mirror=mirrored.mirror)
    with pytest.raises(NoValidHost):
        ask(world)
    assert len(world.placement.queries) == 1
    assert filter_lines(caplog) == ["Filter ComputeFilter returned 0 hosts", "Filtering removed all hosts"]


def test_a_pass_that_another_one_follows_is_not_logged(make_world, caplog):
    """The mirror names a disabled host only; Placement offers another one, too."""
    caplog.set_level("INFO")
    first, second = mirrored_hosts()
    mirror = Mirrored(["h1"]).mirror
    world = make_world([first.disabled(), second], mirror=mirror)
    assert ask(world)[0][0].service_host == "h2"
    assert filter_lines(caplog) == []
