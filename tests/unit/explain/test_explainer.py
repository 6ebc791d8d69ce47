"""Questions to a worker: which decision is meant, what a list has, and that work is bounded."""

import sys
import threading

import pytest

from scheduler.errors import InvalidRequest
from scheduler.explain.explainer import LONGEST_PAUSE, Busy, Explainer, Pace, seconds_of
from scheduler.explain.explanation import Names
from scheduler.explain.memory import DecisionMemory
from scheduler.explain.relaxation import NOTHING_HELPS, Relaxation
from scheduler.filters.base import BaseHostFilter
from scheduler.hosts.request_instances import NoInstances
from scheduler.weights.base import BaseHostWeigher
from tests.support.options import make_conf
from tests.unit.explain.test_memory import PLENTY, records


@pytest.fixture(scope="module")
def made():
    """Three decisions of one second each: the second one failed, the third is of another project."""
    found = records(1, 99999, 1)
    for number, record in enumerate(found):
        record.started_at = 1000.0 + number
        record.request.spec.project_id = "a" if number < 2 else "b"
    return found


@pytest.fixture
def explainer(made):
    memory = DecisionMemory(10, PLENTY)
    for record in made:
        memory.add(record)
    return make_explainer(memory)


def make_explainer(memory, names=Names, **options):
    return Explainer(memory, names, make_conf(**options), None, NoInstances(), 0.0, lambda: lambda: None)


def test_a_decision_is_found_by_instance(explainer):
    assert explainer.decision("i1", 10)["decision"]["instances"] == ["i1"]
    assert explainer.host("i1", "h")["nodes"][0]["filter"] == "RamFilter"


def test_an_unknown_decision_is_none(explainer):
    assert explainer.decision("i9", 10) is None
    assert explainer.host("i9", "h") is None


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({}, ["i2", "i1", "i0"]),
        ({"failed": True}, ["i1"]),
        ({"since": 1000.5}, ["i2", "i1"]),
        ({"project": "a"}, ["i1", "i0"]),
        ({"project": "none"}, []),
        ({"at_most": 2}, ["i2", "i1"]),
    ],
    ids=str,
)
def test_a_list_has_the_latest_first(explainer, wanted, found):
    assert [one["instances"][0] for one in explainer.decisions(**wanted)] == found


def test_a_long_request_does_not_hide_those_that_began_after_it(made):
    """The first request began before the time that is asked for, and ended last."""
    memory = DecisionMemory(10, PLENTY)
    for record in (*made[1:], made[0]):
        memory.add(record)
    explainer = make_explainer(memory)
    assert [one["instances"][0] for one in explainer.decisions(since=1000.5)] == ["i2", "i1"]
    found = explainer.compare({"ram_weight_multiplier": "-1"}, None, 10, 1000.5)
    assert [one["instance"] for one in found["choices"]] == ["i1", "i2"]


def test_an_entry_tells_result_and_reason(explainer):
    served, failed, _ = explainer.decisions()
    assert (served["result"], served["hosts"], served["summary"]) == ("scheduled", ["h"], "")
    assert (failed["result"], failed["hosts"]) == ("failed", [])


def test_an_entry_has_the_cause_that_was_found(explainer, made):
    """The summary of an empty answer says no more than that nothing fits."""
    made[1].relaxed, made[1].relaxed_at = (Relaxation((), 3),), 2000.0
    _, failed, _ = explainer.decisions()
    assert failed["summary"].endswith("the same query, asked again, has 3 hosts: the cloud has changed since")
    made[1].relaxed = ()
    assert explainer.decisions(failed=True)[0]["summary"].endswith(NOTHING_HELPS)


def test_a_second_question_is_refused_while_the_first_takes_too_long(made):
    memory = DecisionMemory(10, PLENTY)
    for record in made:
        memory.add(record)
    asked, answered = threading.Event(), threading.Event()

    def names():
        asked.set()
        answered.wait(30)
        return Names()

    explainer = make_explainer(memory, names)
    first = threading.Thread(target=explainer.decision, args=("i1", 10))
    first.start()
    assert asked.wait(30)
    with pytest.raises(Busy):
        explainer.decision("i1", 10)
    answered.set()
    first.join()
    assert explainer.decision("i1", 10)


def test_a_pause_is_as_long_as_the_work_before_it_within_a_bound():
    times = iter([0.0, 0.004, 1.0, 3.0, 9.0])
    slept = []
    pace = Pace(lambda: next(times), slept.append)
    pace()
    pace()
    assert slept == [0.004, LONGEST_PAUSE]


@pytest.mark.parametrize(
    "text", ["1970-01-01T00:01:00", "1970-01-01T00:01:00+00:00", "1970-01-01T01:01:00+01:00"]
)
def test_times_without_a_zone_are_utc(text):
    assert seconds_of(text) == 60.0


def test_the_latest_requests_are_compared_in_the_order_in_which_they_came(explainer):
    found = explainer.compare({"ram_weight_multiplier": "-1"}, None, 2)
    assert [one["instance"] for one in found["choices"]] == ["i1", "i2"]
    assert found["options"] == [
        {"group": "filter_scheduler", "name": "ram_weight_multiplier", "now": 1.0, "changed": -1.0}
    ]


def test_requests_before_a_time_are_not_compared(explainer):
    times = [seconds_of(one["time"]) for one in explainer.decisions()]
    found = explainer.compare({"ram_weight_multiplier": "-1"}, None, 100, times[1])
    assert [one["instance"] for one in found["choices"]] == ["i1", "i2"]
    assert explainer.compare({"ram_weight_multiplier": "-1"}, None, 100, times[0] + 1) is None


def test_one_request_is_compared(explainer):
    found = explainer.compare({"ram_weight_multiplier": "-1"}, "i0", 10)
    assert [(one["instance"], one["changed"]) for one in found["choices"]] == [("i0", "h")]
    assert explainer.compare({"ram_weight_multiplier": "-1"}, "i9", 10) is None


def test_a_subset_of_more_hosts_than_can_be_counted_is_all_hosts(explainer):
    found = explainer.compare({"host_subset_size": "9" * 23}, "i0", 10)
    assert [one["changed"] for one in found["choices"]] == ["h"]


@pytest.mark.parametrize("settings", [{"nothing": "1"}, {"enabled_filters": "NoSuchFilter"}], ids=str)
def test_options_that_cannot_work_are_refused(explainer, settings):
    with pytest.raises(InvalidRequest):
        explainer.compare(settings, None, 10)


calls = []


def spring():
    """What a client of the bus wants to be called."""
    calls.append("spring")
    return []


class OperatorsFilter(BaseHostFilter):
    """An operator's filter, which no host passes."""

    def host_passes(self, host_state, spec_obj):
        return False


class OperatorsWeigher(BaseHostWeigher):
    def _weigh_object(self, host_state, weight_properties):
        return 0.0


def operators_filters():
    """An operator's function: it is called when the options are loaded, and by no question."""
    calls.append("operators_filters")
    return [OperatorsFilter]


@pytest.mark.parametrize("option", ["available_filters", "weight_classes"])
@pytest.mark.parametrize(
    "path",
    [
        f"{__name__}.spring",
        f"{__name__}.OperatorsFilter",
        f"{__name__}.OperatorsWeigher",
        "antigravity.fly",
        "scheduler.rules.load_filters.instantiate",
        "scheduler.filters.base.HostFilter",
        "nothing",
    ],
)
def test_a_question_imports_and_calls_nothing(explainer, option, path):
    calls.clear()
    with pytest.raises(InvalidRequest, match="loads no classes"):
        explainer.compare({option: path}, None, 10)
    assert calls == []
    assert "antigravity" not in sys.modules


def test_classes_that_the_options_in_use_have_loaded_are_compared(made):
    memory = DecisionMemory(10, PLENTY)
    for record in made:
        memory.add(record)
    paths = ["nova.scheduler.filters.all_filters", f"{__name__}.operators_filters"]
    weighers = ["nova.scheduler.weights.all_weighers", f"{__name__}.OperatorsWeigher"]
    explainer = make_explainer(memory, available_filters=paths, weight_classes=weighers)
    calls.clear()
    found = explainer.compare({"enabled_filters": "OperatorsFilter"}, "i0", 10)
    assert [one["changed"] for one in found["choices"]] == [None]
    for one in (f"{__name__}.OperatorsWeigher", "nova.scheduler.weights.ram.RAMWeigher"):
        found = explainer.compare({"weight_classes": one, "enabled_filters": "RamFilter"}, "i0", 10)
        assert [one["changed"] for one in found["choices"]] == ["h"]
    assert calls in ([], ["operators_filters"])  # once in a process, whoever asks


@pytest.mark.parametrize(
    "name",
    [
        "placement.auth_url",
        "placement.endpoint_override",
        "neutron.username",
        "DEFAULT.transport_url",
        "DEFAULT.host",
        "database.connection",
        "berth.decision_log",
        "keystone_authtoken.username",
    ],
)
def test_options_that_do_not_decide_between_hosts_are_not_shown(explainer, name):
    with pytest.raises(InvalidRequest, match=r"does not decide|There is no option"):
        explainer.compare({name: "guess"}, None, 10)
