from itertools import permutations
import random

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler import objects
from scheduler.filters.base import HostFilter, Judge
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.numa.guest import guest_topology_from
from scheduler.selection.ranking import HEAD, Ranking, descending
from scheduler.weights.base import HostWeigher, Scorer
from scheduler.weights.scores import PreparedWeighers
from tests.builders import make_host, make_table, make_view
from tests.unit.selection.requests import make_conf, make_request, make_spec


class ByRam(HostWeigher):
    option = "ram_weight_multiplier"

    def prepare(self, request):
        return FreeRam()


class FreeRam(Scorer):
    def weigh(self, hosts):
        return hosts.numbers("free_ram_mb").astype(float)


class EnoughRam(HostFilter):
    def prepare(self, request):
        return RamJudge()


class RamJudge(Judge):
    def passes(self, hosts):
        return hosts.numbers("free_ram_mb") >= 1000


class ByExpectedRam(HostWeigher):
    option = "ram_weight_multiplier"

    def prepare(self, request):
        return ExpectedRam()


class ExpectedRam(Scorer):
    def weigh(self, hosts):
        return hosts.expected("free_ram_mb").astype(float)


class NotFull(HostFilter):
    def prepare(self, request):
        return FewInstances()


class FewInstances(Judge):
    def passes(self, hosts):
        return hosts.numbers("num_instances") < 2


def ranking_of(chain, weighers, view, request, conf):
    """Hosts ranked by these filter and weigher objects."""
    prepared = FilterChain(chain).prepare(request)
    return Ranking(prepared, PreparedWeighers(weighers, request), view, request, conf.filter_scheduler)


def by_ram(free_ram, chain=(), request=None, **options):
    conf = make_conf(**options)
    view = make_view([make_host(f"h{number}").ram(ram) for number, ram in enumerate(free_ram, 1)])
    return ranking_of([rule(conf) for rule in chain], [ByRam(conf)], view, request or make_request(), conf)


def names(ranking):
    return [ranking.hosts.row(index).host for index in ranking.best_first()]


# spec: filters-and-weighers 1.10
@pytest.mark.parametrize(
    ("ram", "options", "first", "orders"),
    [
        ([5, 5], {}, {"h1"}, {("h1", "h2")}),
        ([5, 5], {"host_subset_size": 2}, {"h1", "h2"}, {("h1", "h2"), ("h2", "h1")}),
        ([5, 5], {"host_subset_size": 20}, {"h1", "h2"}, {("h1", "h2"), ("h2", "h1")}),
        (
            [8, 8, 4, 4],
            {"shuffle_best_same_weighed_hosts": True},
            {"h1", "h2"},
            {("h1", "h2", "h3", "h4"), ("h2", "h1", "h3", "h4")},
        ),
        (
            [5, 8, 8, 8],
            {"shuffle_best_same_weighed_hosts": True},
            {"h2", "h3", "h4"},
            {(*tied, "h1") for tied in permutations(["h2", "h3", "h4"])},
        ),
        (
            [8, 8, 4, 3],
            {"shuffle_best_same_weighed_hosts": True, "host_subset_size": 3},
            {"h1", "h2", "h3"},
            {
                *(("h1", "h2", "h3", "h4"), ("h2", "h1", "h3", "h4")),
                *(("h3", "h1", "h2", "h4"), ("h3", "h2", "h1", "h4")),
            },
        ),
        ([9, 6, 3], {"host_subset_size": 2}, {"h1", "h2"}, {("h1", "h2", "h3"), ("h2", "h1", "h3")}),
    ],
)
def test_one_of_the_best_comes_first_and_the_others_follow(ram, options, first, orders):
    ranking = by_ram(ram, **options)
    seen = {tuple(names(ranking)) for _ in range(200)}
    assert {order[0] for order in seen} == first
    assert seen == orders


def test_the_choice_is_offered_exactly_the_best(monkeypatch):
    offered = []
    monkeypatch.setattr(random, "choice", lambda among: offered.append(list(among)) or among[0])
    names(by_ram([3, 9, 6, 1], host_subset_size=2))
    assert offered == [[1, 2]]


def test_hosts_that_refused_a_claim_come_last():
    ranking = by_ram([9, 6, 3])
    ranking.refuse(0)
    assert names(ranking) == ["h2", "h3", "h1"]


def test_nobody_left():
    assert names(by_ram([10, 20], [EnoughRam])) == []


def test_forced_hosts_are_not_filtered_but_weighed():
    ranking = by_ram([10, 20], [EnoughRam], make_request(make_spec(force_hosts=["h1", "h2"])))
    assert names(ranking) == ["h2", "h1"]


def topology(pagesize, *host_cells):
    cells = [
        objects.InstanceNUMACell(id=number, cpuset={0}, pcpuset=set(), memory=512, pagesize=pagesize)
        for number in host_cells
    ]
    return objects.InstanceNUMATopology(cells=cells)


@pytest.mark.parametrize(("before", "asked"), [(2048, [1]), (-2, [2])])
def test_a_choice_that_settles_page_sizes_has_all_hosts_judged_anew(monkeypatch, before, asked):
    request = make_request(make_spec(numa_topology=topology(before, 0)))
    ranking = by_ram([3000, 2500], [EnoughRam], request)
    request.progress.guest = guest_topology_from(topology(2048, 1))
    seen, passes = [], RamJudge.passes
    monkeypatch.setattr(RamJudge, "passes", lambda *given: seen.append(len(given[1])) or passes(*given))
    ranking.refresh(0)
    assert seen == asked
    assert names(ranking) == ["h1", "h2"]


class OneCandidate(HostFilter):
    """Leaves each host one candidate, and notes how many hosts it was asked about."""

    asked = ()

    def prepare(self, request):
        return FirstCandidate()


class FirstCandidate(Judge):
    def passes(self, hosts):
        OneCandidate.asked += (len(hosts),)
        for index in range(len(hosts)):
            hosts.narrow(index, hosts.candidates(index)[:1])
        return np.ones(len(hosts), dtype=bool)


@pytest.mark.parametrize(("host_cells", "asked"), [((), (3, 1, 1)), ((0,), (3, 1, 1)), ((0, 1), (3, 3, 1))])
def test_lost_candidates_have_all_hosts_judged_anew_where_they_bear_on_others(monkeypatch, host_cells, asked):
    monkeypatch.setattr(OneCandidate, "asked", ())
    view = make_view([make_host(f"h{number}").candidate("a", "b") for number in range(3)])
    spec = make_spec(numa_topology=topology(4, *host_cells) if host_cells else None)
    conf = make_conf()
    ranking = ranking_of([OneCandidate(conf)], [], view, make_request(spec), conf)
    ranking.refresh(0)
    ranking.refresh(0)
    assert OneCandidate.asked == asked


@given(
    st.lists(st.integers(500, 4000), min_size=1, max_size=15),
    st.lists(st.tuples(st.integers(0, 14), st.integers(0, 1500)), max_size=5),
)
def test_judging_what_changed_equals_judging_everything(ram, choices):
    ranking = by_ram(ram, [EnoughRam])
    left = dict(enumerate(ram))
    for choice, amount in choices:
        if not len(ranking):
            break
        index = choice % len(ranking)
        left[int(ranking.hosts.positions[index])] -= amount
        ranking.hosts.consume(index, free_ram_mb=-amount)
        ranking.refresh(index)
    fresh = by_ram([left[position] for position in sorted(left)], [EnoughRam])
    # The lone survivor of several is not weighed, and weighs what a lone host does: nothing.
    assert names(ranking) == names(fresh)
    assert ranking.totals().tolist() == fresh.totals().tolist()


@given(
    st.lists(st.integers(900, 3000), min_size=2, max_size=10),
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 1500)), max_size=6),
)
def test_judging_what_others_have_reserved_equals_judging_all_anew(free_ram, reserved):
    pending, conf = PendingPlacements(), make_conf()
    table = make_table([make_host(f"h{number}").ram(ram) for number, ram in enumerate(free_ram, 1)])

    def ranked():
        view = HostView.of(table, np.arange(len(table)), pending=pending)
        prepared = FilterChain([NotFull(conf)]).prepare(make_request())
        weighers = PreparedWeighers([ByExpectedRam(conf)], make_request())
        return Ranking(prepared, weighers, view, make_request(), conf.filter_scheduler)

    ranking = ranked()
    for number, (host, ram) in enumerate(reserved):
        taken = np.array([-ram, 0, 0, 1, 1])
        pending.add(f"i{number}", table, host % len(table), taken)
    ranking.refresh_pending()
    fresh = ranked()
    assert names(ranking) == names(fresh)
    if len(fresh) > 1:
        assert ranking.totals().tolist() == fresh.totals().tolist()


def test_descending_is_stable():
    assert list(descending(np.array([1.0, 2.0, 2.0, 0.0, 1.0]))) == [1, 2, 0, 4, 3]


@given(st.lists(st.sampled_from([-np.inf, -1.0, 0.0, 0.5, 1.0, 2.0, np.inf]), max_size=4 * HEAD), st.data())
def test_the_order_of_many_hosts_is_that_of_a_stable_sort(few, data):
    distinct = data.draw(st.lists(st.floats(allow_nan=False), max_size=2 * HEAD))
    totals = np.array([*few, *distinct])
    assert list(descending(totals)) == np.argsort(-totals, kind="stable").tolist()
