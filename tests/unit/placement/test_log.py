"""What operators search the log for (spec: placement-and-workflow 5.8)."""

import logging

import pytest

from scheduler.placement.candidates import CandidateSource
from scheduler.placement.client import Reply
from scheduler.request.query import Query
from tests.support.placement import Placement, Provider

QUERY = Query((("limit", "9"),), "limit=9", 9)


@pytest.fixture
def log(caplog):
    """(level, text) of all lines that were logged."""
    caplog.set_level(logging.DEBUG)
    return lambda: [(record.levelname, record.getMessage()) for record in caplog.records]


class Answering:
    """A client to which Placement always answers the same."""

    def __init__(self, status, body):
        self.reply = Reply(status, body)

    def get(self, path, version, context, search):
        return self.reply


def test_no_candidates(log):
    source = CandidateSource(Answering(200, b'{"allocation_requests": [], "provider_summaries": {}}'))
    assert not source.fetch([QUERY], None).by_root
    ((level, text),) = log()
    assert level == "INFO"
    assert text.startswith("Got no allocation candidates from the Placement API")


def test_a_query_that_is_refused(log):
    CandidateSource(Answering(400, b'{"errors": [{"detail": "no"}]}')).fetch([QUERY], None)
    ((level, text),) = log()
    assert level == "ERROR"
    assert text.startswith("Failed to retrieve allocation candidates from placement API")


@pytest.mark.parametrize("status", [401, 403, 500, 503])
def test_of_an_outage_a_request_logs_nothing(log, status):
    found = CandidateSource(Answering(status, b"")).fetch([QUERY], None)
    assert found.failed
    assert {level for level, _ in log()} == {"DEBUG"}


def test_nothing_is_said_where_there_are_candidates(log):
    source = CandidateSource(Placement(Provider("a", {"VCPU": {"total": 1}})))
    assert source.fetch([Query((("resources", "VCPU:1"),), "resources=VCPU%3A1", None)], None).by_root
    assert log() == []
