import logging

import pytest

from scheduler.logs import RateLimitedLogger
from scheduler.placement.errors import PlacementUnreachable
from scheduler.placement.partition_members import REPORT_INTERVAL, missing_hosts, report
from scheduler.placement.reply import Reply
from tests.support.placement import Placement, make_node

NODES = {"u1": "h1", "u2": "h2", "u3": "h3"}


PATH = "/resource_providers?member_of=in%3Aa%2Cb"


def holding(*uuids):
    return Placement(*(make_node(uuid, aggregates={"a"}) for uuid in uuids))


def missing(client, aggregates=frozenset({"b", "a"})):
    return missing_hosts(client, aggregates, NODES)


@pytest.fixture
def reports():
    return RateLimitedLogger(logging.getLogger("nova"), REPORT_INTERVAL)


def test_hosts_that_placement_lacks_are_named_once(caplog, reports):
    client = holding("u2", "other")
    assert missing(client) == ["h1", "h3"]
    assert client.asked == [PATH]
    for _ in range(2):
        report(reports, "gpu", ["h1", "h3"], [])
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert line.startswith("Hosts of partition gpu that are not in its aggregates in Placement")
    assert "(h1, h3);" in line


def test_hosts_of_no_partition_are_named(caplog, reports):
    report(reports, "gpu", [], [f"h{number}" for number in range(7)])
    assert caplog.messages == [
        "Hosts that belong to no partition and get no instances: 7 (h0, h1, h2, h3, h4, ...)"
    ]


def test_nothing_is_said_if_all_are_there(caplog, reports):
    report(reports, "gpu", missing(holding("u1", "u2", "u3")), [])
    assert caplog.records == []


@pytest.mark.parametrize("answer", [Reply(500), PlacementUnreachable("away")])
def test_without_an_answer_nothing_is_known_to_be_missing(answer):
    client = Placement()
    client.failures[PATH] = answer
    assert missing(client) == []


@pytest.mark.parametrize("aggregates", [None, frozenset()])
def test_without_aggregates_nothing_is_asked(aggregates):
    client = Placement()
    assert missing(client, aggregates) == []
    assert client.asked == []
