"""Each cause of a failed request has its words, in the log, in the document and, if wanted, in the exception."""

import pytest

from scheduler import objects
from scheduler.claims.claims import TOO_LATE
from scheduler.decisions.document import decode
from scheduler.errors import DependencyUnavailable, HostsUnknown, NoValidHost, RequestFilterFailed
from scheduler.placement.answer import Candidates
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.placement.errors import PlacementUnanswered
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.request import prefilters
from scheduler.request.past import Past
from scheduler.rpc.calls import Call
from tests.builders import make_table, uuid_of
from tests.support.clock import Clock
from tests.unit import test_manager
from tests.unit.selection.requests import group, host_with_candidate, make_spec
from tests.unit.test_manager import ask, two_hosts

# fixtures
conf, make_world = test_manager.conf, test_manager.make_world


def refusal(step=ClaimState.NEXT_HOST, outcome=Outcome.REFUSED, cause="no room", host="h1"):
    return Written(outcome, cause=cause, reason=cause, events=(ClaimEvent(1, host, 409, cause, step),))


def spec_of(**fields):
    return make_spec(project_id="p", **fields)


def placement_empty(make_world, conf, monkeypatch):
    return make_world([]), {}


def placement_silent(make_world, conf, monkeypatch):
    world = make_world(two_hosts())
    silent = Candidates(reason="Placement does not respond: timed out", failed=True)
    world.placement.fetch = lambda queries, context: silent
    return world, {}


def all_filtered(make_world, conf, monkeypatch):
    return make_world([host_with_candidate("h1").disabled(), host_with_candidate("h2").disabled()]), {}


def too_few_for_the_group(make_world, conf, monkeypatch):
    members = group(policy="anti-affinity", members=["i1", "i2", "i3"], hosts=[])
    return make_world(two_hosts()), {
        "spec": spec_of(instance_group=members, scheduler_hints={"group": ["g"]}),
        "uuids": ("i1", "i2", "i3"),
    }


def claims_refused(make_world, conf, monkeypatch):
    return make_world(two_hosts(), {uuid_of("h1"): refusal(), uuid_of("h2"): refusal(host="h2")}), {}


def claim_given_up(make_world, conf, monkeypatch):
    lost = refusal(ClaimState.GIVEN_UP, Outcome.UNSENT, "no response")
    return make_world(two_hosts(), {uuid_of("h1"): lost}), {}


def too_late(make_world, conf, monkeypatch):
    world = make_world(two_hosts())

    def late(_candidates, _requester, _deadline):
        raise NoValidHost(TOO_LATE)

    world.placement.claim = late
    return world, {}


def host_without_a_cell(make_world, conf, monkeypatch):
    world = make_world(two_hosts())
    monkeypatch.setattr(world.hosts, "mapped", lambda host: False)
    world.manager.use_rules()
    return world, {}


def cell_disabled(make_world, conf, monkeypatch):
    world = make_world(two_hosts())
    world.hosts.table = world.hosts.whole = make_table([])
    return world, {}


def cell_away(make_world, conf, monkeypatch):
    world = make_world([], unknown=[host_with_candidate("h9")])
    world.hosts.complete = lambda table, uuids: world.hosts.table

    def recovery(cell_uuid):
        raise HostsUnknown(["cell2"])

    world.hosts.recovery = recovery
    return world, {}


def all_ignored(make_world, conf, monkeypatch):
    return make_world(two_hosts()), {"spec": spec_of(ignore_hosts=["h1", "h2"])}


def host_unknown(make_world, conf, monkeypatch):
    return make_world(two_hosts()), {"spec": spec_of(force_hosts=["zz"])}


def prefilter_refuses(make_world, conf, monkeypatch):
    def run(spec, context, services):
        raise RequestFilterFailed("no aggregate for zone x")

    monkeypatch.setattr(prefilters, "run", run)
    return make_world(two_hosts()), {}


def json_hint_refused(make_world, conf, monkeypatch):
    conf.set_override("enabled_filters", ["JsonFilter"], "filter_scheduler")
    hints = {"query": ['["=", "$instances", 0]']}
    return make_world(two_hosts()), {"spec": spec_of(scheduler_hints=hints)}


def held_unknown(make_world, conf, monkeypatch):
    world = make_world(two_hosts())

    def read(instance_uuids, context=None):
        raise PlacementUnanswered("timed out", timed_out=True)

    world.placement.read = read
    return world, {"call": Call(past=Past.QUEUED)}


def rebuild_refused(make_world, conf, monkeypatch):
    conf.set_override("enabled_filters", ["ImagePropertiesFilter"], "filter_scheduler")
    host = host_with_candidate("h1").supports(("x86_64", "kvm", "hvm"))
    image = objects.ImageMeta(properties=objects.ImageMetaProps(hw_architecture="aarch64"))
    hints = {"_nova_check_type": ["rebuild"]}
    return make_world([host]), {
        "spec": spec_of(force_hosts=["h1"], force_nodes=["h1"], scheduler_hints=hints, image=image)
    }


def no_instances(make_world, conf, monkeypatch):
    return make_world(two_hosts()), {"spec": spec_of(num_instances=0), "uuids": None}


def no_uuid(make_world, conf, monkeypatch):
    return make_world(two_hosts()), {"uuids": ()}


CASES = {
    placement_empty: "no compute node is known",
    placement_silent: "Placement does not respond: timed out",
    all_filtered: "2 hosts lack only an enabled compute service: service disabled",
    too_few_for_the_group: "2 hosts are rejected only by ServerGroupAntiAffinityFilter: members of",
    claims_refused: "2 hosts lack only a claim that Placement grants: no room",
    claim_given_up: "no response",
    too_late: TOO_LATE,
    host_without_a_cell: "2 hosts lack only a host mapping",
    cell_disabled: "none of 2 hosts is known in a cell that takes part",
    cell_away: "The hosts of these cells are not known",
    all_ignored: "2 hosts suit but are ignored by the request",
    host_unknown: "No such host - host: zz",
    prefilter_refuses: "Scheduling failed: no aggregate for zone x",
    json_hint_refused: "The scheduler hint 'query' is refused",
    held_unknown: "Placement is unavailable",
    rebuild_refused: "1 host is rejected only by ImagePropertiesFilter: image wants aarch64",
    no_instances: "There are not enough hosts available.",
    no_uuid: "There are not enough hosts available.",
}


OUTAGES = {placement_silent, claim_given_up, held_unknown, cell_away}


@pytest.mark.parametrize(("make", "words"), CASES.items(), ids=lambda case: getattr(case, "__name__", ""))
def test_each_cause_is_told(make, words, make_world, conf, monkeypatch, caplog):
    caplog.set_level("INFO", "nova.scheduler.manager")
    world, request = make(make_world, conf, monkeypatch)
    with pytest.raises((NoValidHost, DependencyUnavailable)) as caught:
        ask(world, **request)
    told = [one.getMessage() for one in caplog.records if one.name == "nova.scheduler.manager"]
    (line,) = [text for text in told if text.startswith("No host for instance")]
    (decision,) = map(decode, world.manager.decisions.memory.latest_first())
    assert words in line
    assert decision.summary in line
    assert (decision.error.kind, decision.error.text) == (type(caught.value).__name__, str(caught.value))
    assert world.placement.held == {}


@pytest.mark.parametrize(
    "make", [each for each in CASES if each not in OUTAGES], ids=lambda make: make.__name__
)
@pytest.mark.parametrize("wanted", ["full", "off"])
def test_the_exception_tells_it_only_if_an_option_allows_that(
    make,
    wanted,
    make_world,
    conf,
    monkeypatch,
):
    conf.set_override("explain_no_valid_host", wanted, "berth")
    world, request = make(make_world, conf, monkeypatch)
    with pytest.raises(NoValidHost) as caught:
        ask(world, **request)
    (decision,) = map(decode, world.manager.decisions.memory.latest_first())
    says_it_anyway = decision.summary in decision.error.text
    assert (decision.summary in caught.value.reason) is (wanted == "full" or says_it_anyway)
    for once in ("No valid host was found.", "No such host"):
        assert str(caught.value).count(once) <= 1


def test_the_refusal_of_what_an_instance_holds_is_the_cause(make_world):
    world = make_world(two_hosts())
    held = {uuid_of("h2"): {"resources": {"VCPU": 2, "MEMORY_MB": 512, "DISK_GB": 4}}}
    world.placement.held, world.placement.refused_fences = {"i1": held}, [refusal(host="h2")]
    with pytest.raises(NoValidHost):
        ask(world, call=Call(past=Past.QUEUED))
    (decision,) = map(decode, world.manager.decisions.memory.latest_first())
    assert (decision.cause.code, decision.summary) == (
        "claims",
        "1 claim was refused, the last on host h2: no room",
    )


def test_what_a_request_that_fails_has_released_is_not_called_chosen(make_world):
    clock = Clock(1000.0)
    world = make_world(two_hosts(), clock=clock)

    def end_late(request):
        clock.now += 9999.0
        return Written(Outcome.DONE)

    world.placement.answer = end_late
    with pytest.raises(NoValidHost):
        ask(world)
    (decision,) = map(decode, world.manager.decisions.memory.latest_first())
    assert (decision.cause.code, decision.chosen) == ("late", [])
    assert decision.hosts.outcome == ["passed", "passed"]
