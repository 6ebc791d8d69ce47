import logging

import pytest

from scheduler import logs
from scheduler.logs import OutageLog, brief
from tests.support.clock import Clock

LOG = logging.getLogger("outage")


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def outage(clock, caplog):
    caplog.set_level(logging.INFO)
    return OutageLog(LOG, "The cellar cannot be entered", "The cellar is open again", clock)


def test_it_is_told_once(outage, caplog):
    for number in range(1000):
        outage.report(OSError(f"flooded, {number} cm"))
    assert caplog.messages == ["The cellar cannot be entered: flooded, 0 cm"]
    assert caplog.records[0].levelno == logging.ERROR


def test_another_kind_of_error_is_told(outage, caplog):
    outage.report(OSError("flooded"))
    outage.report(ValueError("on fire"))
    assert [text.partition(": ")[2] for text in caplog.messages] == ["flooded", "on fire"]


def test_what_goes_on_is_mentioned_now_and_then(outage, clock, caplog):
    outage.report(OSError("flooded"))
    clock.now += logs.REMIND - 1
    outage.report(OSError("flooded"))
    assert len(caplog.messages) == 1
    clock.now += 1
    outage.report(OSError("flooded"))
    assert len(caplog.messages) == 2


def test_the_end_is_told_once_and_the_next_one_anew(outage, caplog):
    outage.over()
    assert caplog.messages == []
    outage.report(OSError("flooded"))
    outage.over()
    outage.over()
    outage.report(OSError("flooded"))
    assert caplog.messages == [
        "The cellar cannot be entered: flooded",
        "The cellar is open again",
        "The cellar cannot be entered: flooded",
    ]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("away\n[SQL: SELECT 1]\n(Background on this error)"), "away"),
        (OSError("away"), "away"),
        (OSError(), "OSError"),
        (OSError("\nsecond line"), "OSError"),
    ],
)
def test_brief(error, text):
    assert brief(error) == text
