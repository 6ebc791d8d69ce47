"""What Placement's response to a write of allocations means (spec: placement-and-workflow 4.4, 4.6)."""

from enum import Enum, auto
import re

from scheduler.placement.reply import Reply

CONCURRENT_UPDATE = "placement.concurrent_update"

_RESOURCE = re.compile(r"for '(?P<name>\w+)' on resource provider '(?P<provider>[0-9a-fA-F-]+)'")
_MISSING = re.compile(r"resource provider '(?P<provider>[0-9a-fA-F-]+)' that does not exist")
_EXPECTED = re.compile(r"expected (?P<generation>\d+|null|None) but got")


class WriteOutcome(Enum):
    """What a write of allocations did.

    Attributes:
        DONE: It was carried out.
        CONSUMER_CONFLICT: Nothing; the consumer is not in the expected state.
        CONCURRENT: Nothing; another writer changed a provider or the consumer at the same time.
        REFUSED: Nothing; no capacity, inventory constraints, or an unknown resource class.
        GONE: A provider does not exist. The record of a new consumer stays behind.
        INVALID: Nothing; Placement refuses the body on any host.
        DENIED: Nothing; Placement refuses the credentials or the address, so that no claim can succeed.
        UNKNOWN: It may have been carried out.
    """

    DONE = auto()
    CONSUMER_CONFLICT = auto()
    CONCURRENT = auto()
    REFUSED = auto()
    GONE = auto()
    INVALID = auto()
    DENIED = auto()
    UNKNOWN = auto()


def write_outcome(reply: Reply) -> WriteOutcome:
    """Return what a response says that the write did. Only a clear refusal counts as one."""
    if reply.status == 204:
        return WriteOutcome.DONE
    if reply.status in {401, 403}:
        return WriteOutcome.DENIED
    if not reply.error or not 400 <= reply.status < 500:
        return WriteOutcome.UNKNOWN
    if reply.status == 409:
        return _outcome_of_conflict(reply)
    if reply.status == 400:
        return _outcome_of_bad_request(reply.detail)
    return WriteOutcome.DENIED


def _outcome_of_conflict(reply: Reply) -> WriteOutcome:
    if reply.code != CONCURRENT_UPDATE:
        return WriteOutcome.REFUSED
    if "consumer generation conflict" in reply.detail:
        return WriteOutcome.CONSUMER_CONFLICT
    return WriteOutcome.CONCURRENT


def _outcome_of_bad_request(detail: str) -> WriteOutcome:
    if _MISSING.search(detail):
        return WriteOutcome.GONE
    if "JSON does not validate" in detail or "Malformed consumer" in detail:
        return WriteOutcome.INVALID
    return WriteOutcome.REFUSED


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
