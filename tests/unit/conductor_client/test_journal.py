import threading

import pytest

from conductor_client import journal
from conductor_client.journal import InstanceEvent, Journal, Reporter
from tests.unit.conductor_client.doubles import Recorder, context

STORY = [
    InstanceEvent("i", journal.SCHEDULING, at=1),
    InstanceEvent("i", journal.BUILDING, host="a", alternates=2, at=2),
    InstanceEvent("i", journal.FAILED, host="a", alternates=2, at=3),
    InstanceEvent("i", journal.BUILDING, host="b", alternates=1, at=4),
    InstanceEvent("i", journal.ACTIVE, host="b", alternates=1, at=5),
]


def written(events):
    book = Journal()
    for event in events:
        book.write(event)
    (record,) = book.records(["i"])
    return record


@pytest.mark.parametrize("events", [STORY, STORY[::-1], STORY[2:] + STORY[:2]])
def test_a_story_is_the_same_in_whatever_order_it_arrives(events):
    record = written(events)
    assert [event.at for event in record.events] == [1, 2, 3, 4, 5]
    assert (record.state, record.host, record.attempts) == (journal.ACTIVE, "b", 2)


def test_a_final_state_wins_over_a_clock_that_is_ahead():
    assert (
        written(
            [InstanceEvent("i", journal.ACTIVE, host="a", at=1), InstanceEvent("i", journal.BUILDING, at=2)]
        ).host
        == "a"
    )


def test_only_what_is_active_has_a_host():
    assert written(STORY[:2]).host is None


def test_records_of_unknown_instances_are_left_out():
    assert Journal().records(["i"]) == []


def test_waiting_ends_when_all_are_final():
    book = Journal()
    book.write(STORY[0])
    assert not book.wait(["i"], 0.01)
    later = threading.Timer(0.05, book.write, [STORY[-1]])
    later.start()
    assert book.wait(["i"], 10)
    later.join()


def test_reports_travel_as_plain_dicts():
    recorder = Recorder()

    class Bus:
        def client(self, topic, version):
            assert (topic, version) == ("conductor", "1.0")
            return recorder

    Reporter(Bus(), "one").note(context(), "i", journal.ACTIVE, host="a")
    ((method, arguments),) = recorder.casts
    assert method == "report"
    event = InstanceEvent(**arguments["event"])
    assert (event.instance_uuid, event.state, event.host, event.cell) == ("i", journal.ACTIVE, "a", "one")
    assert event.at > 0
