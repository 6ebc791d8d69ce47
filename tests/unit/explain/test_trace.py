"""What is noted of a decision."""

import numpy as np
import pytest

from scheduler.explain import trace
from scheduler.explain.document import document
from scheduler.explain.explanation import LOG_FILE, explain_document
from scheduler.explain.record import best_indices
from scheduler.explain.summary import summarize
from scheduler.request.scheduling_request import SchedulingRequest
from tests.support.options import make_conf
from tests.unit.explain.decisions import decide
from tests.unit.filters.asking import make_spec
from tests.unit.selection.requests import host_with_candidate


@pytest.mark.parametrize(
    ("totals", "expected"),
    [
        ([1.0, 3.0, 2.0], [1, 2, 0]),
        ([1.0, 1.0, 1.0, 1.0], [0, 1, 2]),
        ([5.0, 1.0, 7.0, 5.0, 5.0], [2, 0, 3]),
        ([-np.inf, -np.inf, -np.inf, 0.0], [3, 0, 1]),
        ([], []),
    ],
    ids=["few", "all alike", "ties at the end", "refused hosts", "none"],
)
def test_the_best_three_are_those_that_are_tried_first(totals, expected):
    assert best_indices(np.array(totals), 3).tolist() == expected


def test_the_weights_of_the_best_hosts_add_up_to_their_totals():
    hosts = [host_with_candidate(f"h{number}").ram(1024 * number, 65536) for number in range(1, 15)]
    for host in hosts[5:]:
        host.aggregate("a", ram_weight_multiplier="2.5")
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    record, *_ = decide(make_conf(enabled_filters=[]), hosts, request)
    best = list(record.best)
    assert [one.host for one in best] == [f"h{number}" for number in range(14, 4, -1)]
    for one in best:
        assert sum(weight.weighted for weight in one.weights) == pytest.approx(one.total)
    ram = next(weight for weight in best[0].weights if weight.weigher == "RAMWeigher")
    assert (ram.raw, ram.normalised, ram.multiplier) == (14336.0, 1.0, 2.5)
    assert record.chosen[0].host == ("h14", "h14")


def test_the_reason_is_known_of_an_instance_beyond_those_that_are_explained(monkeypatch):
    monkeypatch.setattr(trace, "MOST_ROUNDS", 3)
    conf = make_conf(enabled_filters=["ComputeFilter", "NumInstancesFilter"], max_instances_per_host=3)
    hosts = [host_with_candidate("h1"), host_with_candidate("h2")]
    uuids = [f"i{number}" for number in range(7)]
    record, *_ = decide(conf, hosts, SchedulingRequest.of(make_spec(instance_uuid="i0"), uuids))
    assert len(record.hosts.rounds) == 3
    assert summarize(record) == "NumInstancesFilter turned down 1 (3 instances, limit 3)"
    *_, last = explain_document(document(record), LOG_FILE)["funnel"]
    assert (last["name"], last["start"], last["end"]) == ("NumInstancesFilter", 1, 0)
    assert [one["reason"] for one in last["reasons"]] == ["3 instances, limit 3"]
    record.drop_hosts()
    assert summarize(record) == "NumInstancesFilter turned down 1 (3 instances, limit 3)"


def test_a_host_that_is_alone_has_no_weights():
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    record, *_ = decide(make_conf(enabled_filters=[]), [host_with_candidate("h")], request)
    assert [(one.host, one.weights) for one in record.best] == [("h", ())]


def test_a_password_in_an_error_is_not_recorded():
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    made = trace.Trace(request, lambda: 0.0)
    record = made.finish(ValueError("no answer from http://nova:pa/ss@neutron/v2"))
    assert record.error == ("ValueError", "no answer from http://***@neutron/v2")
