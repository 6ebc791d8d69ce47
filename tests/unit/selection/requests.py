"""Requests, candidates and claims for tests of the selection."""

from dataclasses import replace
import functools

from scheduler import objects
from scheduler.claims.claims import Claims, Pass, owner_of
from scheduler.claims.session import Session
from scheduler.hosts.pending import PendingPlacements
from scheduler.placement.allocations import ConsumerAllocations
from scheduler.placement.answer import AllocationCandidate
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.request.instance_state import all_waiting
from scheduler.request.scheduling_request import SchedulingRequest
from tests.builders import make_host
from tests.support.options import make_conf as new_conf


@functools.cache
def default_conf():
    """Options as a new installation has them; not to be changed."""
    return new_conf()


def make_conf(**overrides):
    """As ``tests.support.options``; without overrides the same object each time."""
    return new_conf(**overrides) if overrides else default_conf()


def make_spec(**fields):
    flavor = objects.Flavor(memory_mb=512, vcpus=2, root_gb=3, ephemeral_gb=1, swap=0, extra_specs={})
    return objects.RequestSpec(**{"flavor": flavor, "instance_uuid": "i0", **fields})


def make_request(spec=None, uuids=("i0",), **options):
    """A request as the manager makes it."""
    return SchedulingRequest.of(spec or make_spec(), uuids, **options)


def make_candidate(provider, mappings=None, **amounts):
    amounts = amounts or {"VCPU": 2}
    allocations = {provider: {"resources": amounts}}
    return AllocationCandidate.of(provider, (provider,), allocations, mappings or {"": [provider]})


def host_with_candidate(name, **amounts):
    """A host, and a candidate on its own provider."""
    host = make_host(name).ram(4096).disk(102400).vcpus(16)
    return host.candidate(make_candidate(host.columns["uuid"], **amounts))


REFUSED = Written(Outcome.REFUSED, cause="no room", reason="no room", resource_class="VCPU")


class FakeClaims:
    """The claims of one request, which succeed but for the hosts (or single candidates) that are told to refuse."""

    def __init__(self, answers=None):
        self.answers = answers or {}
        self.tried = []
        self.released = []

    def answer(self, instance_uuid, candidate):
        self.tried.append((instance_uuid, candidate.root))
        answer = self.answers.get(candidate.root, Written(Outcome.DONE))
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else Written(Outcome.DONE)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def claim(self, candidates):
        return {uuid: self.answer(uuid, candidate) for uuid, candidate in candidates.items()}


class NoDoubts:
    """Forgets everything."""

    def note_unknown(self, uuids, owner, kept=None):
        pass

    def note_answered(self, answered):
        pass


class FakeClaimer:
    """A ``Claims`` over ``FakeClaims``; these are told what is released."""

    batch_size = 20
    doubts = NoDoubts()
    listeners = ()
    states_of = staticmethod(all_waiting)

    def __init__(self, claims):
        self.claims = claims

    def claim(self, candidates, of, deadline=None):
        results = self.claims.claim(candidates)
        return {uuid: granted(results[uuid], one) for uuid, one in candidates.items()}

    def fence(self, held, of, deadline):
        return {uuid: Written(Outcome.DONE, held=one) for uuid, one in held.items()}

    note_refusal = Claims.note_refusal

    def release(self, held, left, kept, context=None):
        self.claims.released.extend(held)
        return set()


def granted(result, candidate):
    """The same result, with its event, and with what the instance holds if it is granted."""
    state = ClaimState.GRANTED if result.done else ClaimState.NEXT_HOST
    events = result.events or (ClaimEvent(1, candidate.root, None, result.reason, state),)
    held = result.held if result.held.allocations else ConsumerAllocations(candidate.allocations, 1)
    return replace(result, events=events, held=held if result.done else result.held)


def session_of(claims, request, reservations=None):
    """What claims for a request by ``FakeClaims``; its pass is begun."""
    reservations = PendingPlacements() if reservations is None else reservations
    of_pass = Pass(owner_of(request))
    session = Session(FakeClaimer(claims), reservations, request, lambda *_: of_pass)
    session.begin(None, request)
    return session


def destination(**fields):
    return objects.Destination(**fields)


def group(**fields):
    return objects.InstanceGroup(**fields)
