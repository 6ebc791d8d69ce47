from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler.hosts.request_instances import Needs
from scheduler.objects import InstanceGroup
from scheduler.rules.load_weighers import normalize
from scheduler.weights.affinity import ServerGroupSoftAffinityWeigher, ServerGroupSoftAntiAffinityWeigher
from scheduler.weights.amounts import RAMWeigher
from scheduler.weights.base import HostWeigher, Scorer
from scheduler.weights.scores import PreparedWeighers, clamped
from tests.builders import make_host, make_view
from tests.unit.weights.weighing import make_request, scores, totals

# spec: filters-and-weighers 1.9, the table of normalisation
NORMALISATION = [
    ((), None, None, []),
    ((0.0, 0.0), None, None, [0, 0]),
    ((1.0, 1.0), None, None, [0, 0]),
    ((20, 50), None, None, [0, 1]),
    ((20, 50), None, 100, [0, 0.375]),
    ((20, 50), 0, None, [0.4, 1]),
    ((20, 50), 0, 100, [0.2, 0.5]),
    ((5, 5), 0, None, [1.0, 1.0]),
    ((0, 0), 0, None, [0, 0]),
    ((-3, 5), 0, None, [-0.6, 1]),
    ((5, 5), 5, None, [0, 0]),
]


@pytest.mark.parametrize(("raw", "minval", "maxval", "expected"), NORMALISATION)
def test_normalisation(raw, minval, maxval, expected):
    assert normalize(raw, minval, maxval) == pytest.approx(expected)


class Fixed(HostWeigher):
    """A weigher with weights by host name; counts how many it was asked for."""

    option = "ram_weight_multiplier"

    def __init__(self, weights, minval=None, maxval=None, factor=1.0, local=True):
        super().__init__(None)
        self.weights, self.minval, self.maxval, self.factor, self.local = (
            weights,
            minval,
            maxval,
            factor,
            local,
        )
        self.asked = self.prepared = 0

    def prepare(self, request):
        self.prepared += 1
        return FixedScorer(self)

    def multiplier(self, hosts):
        return self.factor


class FixedScorer(Scorer):
    def __init__(self, weigher):
        self.weigher = weigher

    def weigh(self, hosts):
        self.weigher.asked += len(hosts)
        return np.array([float(self.weigher.weights[row.host]) for row in hosts.rows])


@pytest.mark.parametrize(
    ("raw", "minval", "maxval", "expected"),
    [((-3, 5), 0, None, [0, 1]), ((-5, 5, 20), 0, 10, [0, 0.5, 1])],
    ids=["row 10", "row 13"],
)
def test_raw_weights_are_clamped_before_normalisation(raw, minval, maxval, expected):
    weigher = Fixed({}, minval, maxval)
    lifted = clamped(np.array(raw, dtype=float), weigher)
    assert normalize(lifted.tolist(), minval, maxval) == expected


def view_of(names):
    return make_view([make_host(name) for name in names])


def test_a_lone_host_is_not_weighed():
    weigher = Fixed({"a": 5}, minval=0)
    assert scores([weigher], view_of("a")).totals().tolist() == [0.0]
    assert weigher.asked == 0


def test_totals_are_added_weigher_by_weigher():
    first, second = Fixed({"a": 1, "b": 3}), Fixed({"a": 4, "b": 2}, minval=0, factor=-2.0)
    found = scores([first, second], view_of("ab"))
    assert found.totals().tolist() == [0 - 2.0, 1 - 1.0]
    assert [name for name, _ in found.parts()] == ["Fixed", "Fixed"]


def test_weighers_that_do_not_apply_are_not_run():
    class Silent(Fixed):
        def prepare(self, request):
            return None

    silent = Silent({})
    assert scores([silent], view_of("ab")).totals().tolist() == [0, 0]
    assert silent.asked == 0


def test_after_a_choice_only_the_changed_host_is_weighed_again():
    weights = {"a": 1.0, "b": 2.0, "c": 3.0}
    local, everywhere = Fixed(weights), Fixed(weights, local=False)
    view = view_of("abc")
    found = scores([local, everywhere], view)
    weights["c"] = 0.0
    found.refresh(view, np.array([2]))
    assert (local.asked, everywhere.asked) == (4, 6)
    assert found.totals().tolist() == [1.0, 2.0, 0.0]


def test_a_weigher_is_prepared_once_for_all_instances_of_a_request():
    weigher, view = Fixed({"a": 1.0, "b": 2.0}, local=False), view_of("ab")
    found = scores([weigher], view)
    found.refresh(view, np.array([0]))
    assert (weigher.prepared, weigher.asked) == (1, 4)


def test_weighers_that_apply_say_what_must_be_loaded():
    group = InstanceGroup(policy="soft-affinity", members=["m1", "m2"])
    weighers = [ServerGroupSoftAffinityWeigher(None), ServerGroupSoftAntiAffinityWeigher(None)]
    needs = PreparedWeighers(weighers, make_request(instance_group=group)).needs
    assert needs == Needs(frozenset({"m1", "m2"}))
    assert PreparedWeighers(weighers, make_request()).needs == Needs()


@given(st.lists(st.integers(-50, 50), min_size=2, max_size=12), st.data())
def test_kept_and_refreshed_scores_equal_fresh_ones(raw, data):
    names = [f"h{number}" for number in range(len(raw))]
    weights = dict(zip(names, raw, strict=True))
    view = view_of(names)
    found = scores([Fixed(weights, minval=0)], view)
    kept = np.array(sorted(data.draw(st.sets(st.sampled_from(range(len(raw))), min_size=2))))
    changed = sorted(data.draw(st.sets(st.integers(0, len(kept) - 1))))
    left = view.at(kept)
    for index in changed:
        weights[left.row(index).host] = data.draw(st.integers(-50, 50))
    found.keep(kept)
    found.refresh(left, np.array(changed, dtype=np.int64))
    fresh = scores([Fixed(weights, minval=0)], left)
    assert found.totals().tolist() == fresh.totals().tolist()


def test_what_is_no_number_is_worse_than_any():
    hosts = [
        make_host("h1").aggregate("a", ram_weight_multiplier="inf").ram(0),
        make_host("h2").ram(-9),
        make_host("h3").aggregate("b", ram_weight_multiplier="nan").ram(9),
        make_host("h4").ram(5),
    ]
    assert totals([RAMWeigher], hosts) == {"h1": -np.inf, "h2": 0, "h3": -np.inf, "h4": pytest.approx(5 / 9)}
