"""What Placement's answer to a claim means (spec: placement-and-workflow 4.4, 4.6)."""

from enum import Enum, auto
import re

from scheduler.placement.client import Reply

CONCURRENT_UPDATE = "placement.concurrent_update"

_CULPRIT = re.compile(r"for '(?P<name>\w+)' on resource provider '(?P<provider>[0-9a-fA-F-]+)'")
_GONE = re.compile(r"resource provider '(?P<provider>[0-9a-fA-F-]+)' that does not exist")
_EXPECTED = re.compile(r"expected (?P<generation>\d+|null|None) but got")


class Verdict(Enum):
    """The kinds of answers to a write of allocations."""

    DONE = auto()
    CONSUMER_CONFLICT = auto()  # the consumer is not in the state that was expected; nothing was changed
    CONCURRENT = auto()  # somebody else changed a provider or the consumer at the same time; try again
    REFUSED = auto()  # no room, constraints, unknown class
    GONE = auto()  # a provider does not exist; a new consumer's record stays behind
    INVALID = auto()  # the body is refused whatever the host
    DENIED = auto()  # not allowed, or not there: no claim can succeed
    UNKNOWN = auto()  # it may have been carried out


def judge(reply: Reply) -> Verdict:
    """The meaning of an answer that came. Only a clear refusal counts as one."""
    if reply.status == 204:
        return Verdict.DONE
    if reply.status in {401, 403}:
        return Verdict.DENIED
    if not reply.error or not 400 <= reply.status < 500:
        return Verdict.UNKNOWN
    if reply.status == 409:
        return _judge_conflict(reply)
    if reply.status == 400:
        return _judge_bad_request(reply.detail)
    return Verdict.DENIED


def _judge_conflict(reply: Reply) -> Verdict:
    if reply.code != CONCURRENT_UPDATE:
        return Verdict.REFUSED
    if "consumer generation conflict" in reply.detail:
        return Verdict.CONSUMER_CONFLICT
    return Verdict.CONCURRENT


def _judge_bad_request(detail: str) -> Verdict:
    if _GONE.search(detail):
        return Verdict.GONE
    if "JSON does not validate" in detail or "Malformed consumer" in detail:
        return Verdict.INVALID
    return Verdict.REFUSED


def culprit(reply: Reply) -> tuple[str, str]:
    """Class and provider that a refusal names, the first that Placement found; "" where it names none."""
    found = _CULPRIT.search(reply.detail)
    if found:
        return found["name"], found["provider"]
    found = _GONE.search(reply.detail)
    return "", found["provider"] if found else ""


def expected_generation(reply: Reply) -> int | None:
    """The consumer's generation according to a consumer conflict; None if there is no such consumer."""
    found = _EXPECTED.search(reply.detail)
    return int(found["generation"]) if found and found["generation"].isdigit() else None
