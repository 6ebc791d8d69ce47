"""What operators search the log for (spec: placement-and-workflow 5.8)."""

import logging

import pytest

from scheduler.claims.doubts import NOTHING_KEPT
from tests.unit.claims.builders import candidate, make_claimer, make_pass

INSTANCE = "instance 1"


@pytest.fixture
def log(caplog):
    """(level, text) of all lines that were logged."""
    caplog.set_level(logging.DEBUG)
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


def claim(faults=(), host="aaaa"):
    claimer, _ = make_claimer(write_faults=faults)
    return claimer, claimer.claim({INSTANCE: candidate(host)}, make_pass())[INSTANCE]


def test_a_claim_and_its_release(log):
    claimer, result = claim()
    claimer.release({INSTANCE: result.held}, {}, NOTHING_KEPT)
    assert log() == [
        ("DEBUG", f"Attempting to claim resources in the placement API for instance {INSTANCE}"),
        ("INFO", f"Deleted allocations for instance {INSTANCE}"),
    ]


def test_a_refusal(log):
    claim(host="dead")
    (level, text), next_host = log()[1:]
    assert level == "WARNING"
    assert text.startswith(f"Failed to save allocation for {INSTANCE}. Got HTTP 400: ")
    cause = "Allocation for resource provider 'dead' that does not exist."
    assert next_host == (
        "INFO",
        f"Claim for instance {INSTANCE} on host dead, try 1: {cause}; trying the next host",
    )


def test_too_many_concurrent_updates(log):
    claim(["concurrent"] * 4)
    ((_, text),) = [line for line in log() if line[0] == "ERROR"]
    assert text.startswith("Failed scheduler client operation claim_resources: out of retries")
