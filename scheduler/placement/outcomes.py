"""What became of a write of allocations, and what a response says (spec: placement-and-workflow 4.4, 4.6)."""

from collections.abc import Callable
from enum import Enum, auto
import re
from typing import NamedTuple

from scheduler.placement.reply import Reply

CONCURRENT_UPDATE = "placement.concurrent_update"

_RESOURCE = re.compile(r"for '(?P<name>\w+)' on resource provider '(?P<provider>[0-9a-fA-F-]+)'")
_MISSING = re.compile(r"resource provider '(?P<provider>[0-9a-fA-F-]+)' that does not exist")
_EXPECTED = re.compile(r"expected (?P<generation>\d+|null|None) but got")


class Outcome(Enum):
    """What became of one try of a write, as its response says; of the whole write; and of the claim.

    Attributes:
        DONE: The consumer holds what was written.
        CHANGED: Nothing; the consumer is not as it must be: another writer was first.
        REFUSED: Nothing; no capacity, inventory constraints, or an unknown resource class.
        GONE: Nothing; a provider does not exist. The record of a new consumer stays behind.
        CONTENDED: Nothing; others write to a provider or the consumer at the same time.
        INVALID: Nothing; Placement refuses the body on any host.
        DENIED: Nothing; Placement refuses the credentials or the address.
        UNSENT: Nothing; it never reached Placement.
        UNKNOWN: It may have been carried out, or may yet be.
        STOPPING: The process stops before it is known. Another scheduler can serve the request.
    """

    DONE = auto()
    CHANGED = auto()
    REFUSED = auto()
    GONE = auto()
    CONTENDED = auto()
    INVALID = auto()
    DENIED = auto()
    UNSENT = auto()
    UNKNOWN = auto()
    STOPPING = auto()


#: Those by which Placement gives no usable answer.
UNAVAILABLE = frozenset({Outcome.DENIED, Outcome.UNSENT, Outcome.UNKNOWN})

#: Those that may concern one host alone.
ANOTHER_HOST = frozenset({Outcome.REFUSED, Outcome.GONE, Outcome.CONTENDED})


class Refusal(NamedTuple):
    """Why nothing more may be sent, whatever Placement would say."""

    outcome: Outcome
    reason: str


Refuses = Callable[[], Refusal | None]
"""Returns why nothing more may be sent; None while it may."""


def outcome_of(reply: Reply) -> Outcome:
    """Return what a response says that the write did. Only a clear refusal counts as one."""
    if reply.status == 204:
        return Outcome.DONE
    if reply.status in {401, 403}:
        return Outcome.DENIED
    if not reply.error or not 400 <= reply.status < 500:
        return Outcome.UNKNOWN
    if reply.status == 409:
        return _outcome_of_conflict(reply)
    if reply.status == 400:
        return _outcome_of_bad_request(reply.detail)
    return Outcome.DENIED


def _outcome_of_conflict(reply: Reply) -> Outcome:
    if reply.code != CONCURRENT_UPDATE:
        return Outcome.REFUSED
    if "consumer generation conflict" in reply.detail:
        return Outcome.CHANGED
    return Outcome.CONTENDED


def _outcome_of_bad_request(detail: str) -> Outcome:
    if _MISSING.search(detail):
        return Outcome.GONE
    if "JSON does not validate" in detail or "Malformed consumer" in detail:
        return Outcome.INVALID
    return Outcome.REFUSED


def refused_resource(reply: Reply) -> tuple[str, str]:
    """Return the resource class and the provider that a refusal names, each "" if it names none.

    Placement names the first that it found.
    """
    found = _RESOURCE.search(reply.detail)
    if found:
        return found["name"], found["provider"]
    found = _MISSING.search(reply.detail)
    return "", found["provider"] if found else ""


def expected_generation(reply: Reply) -> int | None:
    """Return the consumer's generation that a consumer conflict names; None if there is no such consumer."""
    found = _EXPECTED.search(reply.detail)
    return int(found["generation"]) if found and found["generation"].isdigit() else None


def cause_of(reply: Reply) -> str:
    """Return what a response says, in one line."""
    return reply.detail or " ".join(reply.text.split())
