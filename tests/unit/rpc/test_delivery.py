import pytest

from scheduler.rpc.delivery import Delivery


class Held:
    def __init__(self, notes, error=None):
        self._notes = notes
        self._error = error

    def confirm(self):
        self._end("confirmed")

    def give_back(self):
        self._end("given back")

    def _end(self, how):
        self._notes.append(how)
        if self._error:
            raise self._error


@pytest.mark.parametrize(("report", "note"), [("confirm", "confirmed"), ("give_back", "given back")])
def test_outcome_is_passed_to_all_that_depends_on_it_once(report, note):
    notes = []
    delivery = Delivery()
    delivery.hold(Held(notes))
    delivery.hold(Held(notes))
    getattr(delivery, report)()
    delivery.confirm()
    delivery.give_back()
    assert notes == [note, note]


@pytest.mark.parametrize("report", ["confirm", "give_back"])
def test_an_error_does_not_keep_the_others_from_the_outcome(report, caplog):
    notes = []
    delivery = Delivery()
    delivery.hold(Held(notes, ValueError("broken")))
    delivery.hold(Held(notes))
    getattr(delivery, report)()
    assert len(notes) == 2
    assert "broken" in caplog.text
