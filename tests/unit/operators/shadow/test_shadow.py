"""Copies, comparisons and the report of a shadow, without a broker."""

from dataclasses import replace
import itertools
import json
import types

import numpy as np
import orjson
import pytest

from scheduler.errors import PlacementUnavailable
from scheduler.filters.chain import PreparedChain
from scheduler.hosts.pending import AMOUNTS
from scheduler.operators.shadow import report
from scheduler.operators.shadow.copies import read_copy
from scheduler.operators.shadow.decisions import (
    MOST_RANKED,
    UNCHANGED,
    BestHosts,
    Changes,
    Choice,
    ShadowDecision,
    ShadowVerdict,
    compare,
)
from scheduler.operators.shadow.shadow import LONGEST_WAIT, MOST_WAITING, Compared, ComparisonFile, Shadow
from scheduler.operators.shown.files import metrics_text
from scheduler.placement.errors import PlacementSilent
from scheduler.selection.ranking import Ranking, descending
from scheduler.weights.scores import PreparedWeighers
from tests.builders import make_host, make_table, make_view
from tests.support import wire_examples
from tests.support.clock import Clock
from tests.support.shown import html_of
from tests.unit.filters.asking import make_spec, request_of

TABLE = make_table([make_host(name) for name in ("one", "two", "three")])
ONE, TWO, THREE = (row.uuid for row in TABLE.rows)


def choice(node, *equal, then=()):
    """A choice among hosts of equal weight, and others of less and less."""
    rows = np.array([TABLE.row_of_uuid[each] for each in (node, *equal, *then)])
    weights = np.array([9.0] * (1 + len(equal)) + [8.0 - rank for rank in range(len(then))])
    ranked = np.zeros(len(TABLE), bool)
    ranked[rows] = True
    return Choice(node, rows, weights, np.packbits(ranked))


def decided(*choices, unreported=(), pending=(), subset=1, refusal=""):
    uuids = tuple(f"vm{number}" for number in range(len(choices) or 1))
    taken = {node: np.ones(len(AMOUNTS), np.int64) for node in pending}
    return ShadowDecision("req-1", uuids, TABLE, subset, choices, unreported, taken, (), refusal, 0.01)


@pytest.mark.parametrize(
    ("decision", "nodes", "verdict"),
    [
        (decided(choice(ONE)), [ONE], ShadowVerdict.SAME),
        (decided(choice(ONE, TWO)), [TWO], ShadowVerdict.EQUAL),
        (decided(choice(ONE, TWO)), [THREE], ShadowVerdict.OTHER),
        (decided(choice(ONE), unreported=[choice(TWO)]), [TWO], ShadowVerdict.UNREPORTED),
        (decided(choice(ONE), unreported=[choice(TWO, THREE)]), [THREE], ShadowVerdict.UNREPORTED),
        (decided(choice(ONE), choice(TWO)), [TWO, ONE], ShadowVerdict.SAME),
        (
            decided(choice(ONE), choice(TWO), unreported=[choice(TWO), choice(THREE)]),
            [THREE, TWO],
            ShadowVerdict.UNREPORTED,
        ),
        (decided(choice(ONE, then=[TWO]), subset=2), [TWO], ShadowVerdict.EQUAL),
        (decided(choice(ONE, then=[TWO, THREE]), subset=2), [THREE], ShadowVerdict.OTHER),
        (decided(choice(TWO), unreported=[choice(ONE, then=[TWO, THREE])]), [THREE], ShadowVerdict.OTHER),
        (
            decided(choice(TWO), unreported=[choice(ONE, then=[TWO, THREE])], pending=[ONE]),
            [THREE],
            ShadowVerdict.OTHER,
        ),
        (
            decided(choice(TWO), unreported=[choice(ONE, then=[TWO, THREE])], pending=[ONE, TWO]),
            [THREE],
            ShadowVerdict.UNREPORTED,
        ),
        (
            decided(choice(THREE), unreported=[choice(ONE, then=[TWO])], pending=[ONE, TWO]),
            [THREE],
            ShadowVerdict.SAME,
        ),
        (
            decided(choice(ONE), unreported=[choice(ONE, then=[TWO])], pending=[ONE, TWO]),
            [THREE],
            ShadowVerdict.OTHER,
        ),
        (decided(choice(ONE), choice(TWO, THREE)), [ONE, THREE], ShadowVerdict.EQUAL),
        (decided(choice(ONE), choice(TWO)), [ONE, ONE], ShadowVerdict.OTHER),
        (decided(choice(ONE)), ["unknown to the table"], ShadowVerdict.OTHER),
        (decided(choice(ONE)), [], ShadowVerdict.NOVA_REFUSED),
        (decided(refusal="No host"), [ONE], ShadowVerdict.BERTH_REFUSED),
        (decided(refusal="No host"), [], ShadowVerdict.BOTH_REFUSED),
    ],
)
def test_a_decision_is_compared_with_what_the_instances_hold(decision, nodes, verdict):
    assert compare(decision, dict(zip(decision.instance_uuids, nodes, strict=False))) is verdict


@pytest.mark.parametrize(
    ("decision", "node", "changes", "verdict"),
    [
        (decided(choice(ONE, then=[TWO])), TWO, Changes(fuller={ONE}), ShadowVerdict.CHANGED),
        (decided(choice(ONE, then=[TWO])), TWO, Changes(freer={ONE}), ShadowVerdict.OTHER),
        (decided(choice(ONE, then=[TWO])), TWO, Changes(freer={TWO}), ShadowVerdict.CHANGED),
        (decided(choice(ONE, then=[TWO])), TWO, Changes(fuller={TWO}), ShadowVerdict.OTHER),
        # one of those that Berth prefers has not changed
        (decided(choice(ONE, then=[TWO, THREE])), THREE, Changes(fuller={ONE}), ShadowVerdict.OTHER),
        (decided(choice(ONE, then=[TWO, THREE])), THREE, Changes(fuller={ONE, TWO}), ShadowVerdict.CHANGED),
        (
            decided(choice(ONE, then=[TWO, THREE]), pending=[TWO]),
            THREE,
            Changes({ONE}),
            ShadowVerdict.CHANGED,
        ),
        (
            decided(choice(ONE, then=[TWO, THREE]), subset=2),
            THREE,
            Changes(fuller={ONE}),
            ShadowVerdict.CHANGED,
        ),
        # it was full before
        (decided(choice(ONE, then=[TWO])), THREE, Changes(freer={THREE}), ShadowVerdict.CHANGED),
        (decided(choice(ONE, then=[TWO])), THREE, Changes(fuller={ONE, TWO}), ShadowVerdict.OTHER),
        (
            decided(choice(ONE), unreported=[choice(TWO, then=[THREE])]),
            THREE,
            Changes(fuller={TWO}),
            ShadowVerdict.CHANGED,
        ),
    ],
)
def test_hosts_that_change_between_the_decisions_are_a_known_reason(decision, node, changes, verdict):
    assert compare(decision, {"vm0": node}, changes=changes) is verdict


def best_of(view, totals, is_mapped):
    """What is noted of hosts that no filter judges, with these total weights."""
    request = request_of(make_spec(instance_uuid="vm0"))
    best = BestHosts(request, 1, is_mapped)
    ranking = Ranking(PreparedChain(()), PreparedWeighers((), request), view, request, None)
    best.ranked(ranking, totals, descending(totals))
    return best


def test_of_hosts_beyond_those_kept_only_the_equal_ones_are_known():
    view = make_view([make_host(f"h{number}") for number in range(MOST_RANKED + 3)])
    totals = np.ones(len(view))
    totals[[5, 7]] = 3, 2
    totals[-1] = 0
    best = best_of(view, totals, lambda _host: True)
    best.consumed(view, 5, None)
    (chosen,) = best.choices
    assert chosen.node == view.row(5).uuid
    heavier = {row: chosen.heavier(row) for row in (5, 7, 9, MOST_RANKED + 1)}
    assert {row: sorted(rows) for row, rows in heavier.items()} == {
        5: [],
        7: [5],
        9: [5, 7],
        MOST_RANKED + 1: [5, 7],
    }
    assert chosen.heavier(MOST_RANKED + 2) is None


def test_a_host_that_berth_never_chooses_is_none_of_its_best():
    view = make_view([make_host(name) for name in ("h1", "h2", "unmapped")])
    best = best_of(view, np.array([1.0, 1.0, 2.0]), lambda host: host != "unmapped")
    best.consumed(view, 0, None)
    decision = ShadowDecision("req-1", ["vm0"], view.table, choices=best.choices)
    verdicts = [compare(decision, {"vm0": row.uuid}) for row in view.rows]
    assert verdicts == [ShadowVerdict.SAME, ShadowVerdict.EQUAL, ShadowVerdict.OTHER]


def body(**changes):
    message = wire_examples.message(next(name for name in wire_examples.NAMES if "boot" in name)) | changes
    return orjson.dumps({"oslo.version": "2.0", "oslo.message": orjson.dumps(message).decode()})


def test_a_copy_has_the_request_and_its_context():
    copy = read_copy(body(_context_request_id="req-7"), 3.5)
    assert copy.context.request_id == "req-7"
    assert copy.received_at == 3.5
    assert len(copy.instance_uuids) == copy.spec.num_instances


def test_other_calls_are_no_copies():
    assert read_copy(body(method="update_aggregates"), 0) is None
    assert read_copy(body(args={"spec_obj": {}, "instance_uuids": []}), 0) is None


def test_a_rebuild_is_no_copy_as_its_instance_holds_its_host_already():
    message = wire_examples.message("rebuild_check_current_host")
    assert message["args"]["instance_uuids"]
    assert read_copy(body(**message), 0) is None


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b'{"oslo.message": 1}',
        b'{"oslo.message": "[]"}',
        body(args={"spec_obj": 1, "instance_uuids": ["x"]}),
    ],
)
def test_what_is_no_message_of_nova_is_told(text):
    with pytest.raises(ValueError, match=r"."):
        read_copy(text, 0)


class World:
    """What nova-scheduler does, for a shadow."""

    def __init__(self, directory):
        self.clock = Clock()
        self.held = {}
        self.over = set()
        self.followed = []
        self.changes = UNCHANGED
        self.decision = decided(choice(ONE))
        self.file = ComparisonFile(directory, self.clock)
        self.shadow = Shadow(self, self.file, self.clock)
        self.directory = directory
        self._numbers = itertools.count()

    def decide(self, copy):
        if isinstance(self.decision, Exception):
            raise self.decision
        return self.decision

    def held_nodes(self, copy):
        if self.held is None:
            raise PlacementSilent("away")
        return {uuid: self.held[uuid] for uuid in copy.instance_uuids if uuid in self.held}

    def nobody_waits(self, uuids):
        return self.over >= set(uuids)

    def follow(self, decision, nodes):
        self.followed.append(nodes)

    def changes_since(self, decision, nodes):
        return self.changes

    def name_of(self, node):
        return TABLE.rows[TABLE.row_of_uuid[node]].host

    def take(self):
        context = types.SimpleNamespace(request_id=f"req-{next(self._numbers)}")
        instances = self.decision.instance_uuids if isinstance(self.decision, ShadowDecision) else ("vm0",)
        self.shadow.take(
            types.SimpleNamespace(context=context, instance_uuids=instances, received_at=self.clock())
        )

    def look(self, seconds=0.0):
        self.clock.now += seconds
        self.shadow.look()
        return list(report.read(self.directory))


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.file.close()


def test_what_nova_chose_is_waited_for_and_written(world):
    world.take()
    assert world.look(1) == []
    world.held["vm0"] = ONE
    (written,) = world.look(10)
    assert (written.verdict, written.berth, written.nova) == (ShadowVerdict.SAME, ("one",), ("one",))
    assert written.nova_seconds == 11
    assert world.followed == [{"vm0": ONE}]
    assert world.look(1000) == [written]


def test_a_request_that_nova_gave_up_was_refused(world):
    world.take()
    world.over.add("vm0")
    assert [each.verdict for each in world.look(1)] == [ShadowVerdict.NOVA_REFUSED]


def test_all_instances_of_a_request_are_waited_for(world):
    world.decision = decided(choice(ONE), choice(TWO))
    world.take()
    world.held["vm0"] = ONE
    assert world.look(1) == []
    world.held["vm1"] = TWO
    assert [each.verdict for each in world.look(10)] == [ShadowVerdict.SAME]


def test_while_placement_is_away_nothing_counts_as_refused(world):
    world.take()
    world.over.add("vm0")
    world.held = None
    assert world.look(1) == []
    world.held = {"vm0": ONE}
    assert [each.verdict for each in world.look(10)] == [ShadowVerdict.SAME]


def test_a_choice_that_is_never_seen_is_given_up(world):
    world.take()
    found = []
    for _ in range(12):
        found = world.look(LONGEST_WAIT / 8)
    assert [each.verdict for each in found] == [ShadowVerdict.UNKNOWN]
    assert world.followed == [{}]


@pytest.mark.parametrize("error", [PlacementUnavailable("away"), KeyError("a defect")])
def test_what_cannot_be_decided_is_written(world, error):
    world.decision = error
    world.take()
    assert [each.verdict for each in world.look()] == [ShadowVerdict.UNKNOWN]


def in_disorder(world):
    """Let two requests be decided in one order here, and in the other one by nova-scheduler."""
    ranked = choice(ONE, then=[TWO, THREE])
    for number, node in enumerate((ONE, TWO)):
        uuids = (f"vm{number}",)
        world.decision = replace(
            decided(choice(node), unreported=[ranked], pending=[ONE] if number else []),
            request_id=f"req-{number}",
            instance_uuids=uuids,
        )
        world.take()


def test_an_order_in_which_requests_were_decided_at_the_same_time_is_a_known_reason(world):
    in_disorder(world)
    world.held = {"vm0": TWO, "vm1": ONE}
    assert [each.verdict for each in world.look(1)] == [ShadowVerdict.UNREPORTED] * 2


def test_the_choice_for_a_request_of_the_same_time_is_waited_for(world):
    in_disorder(world)
    world.held["vm0"] = TWO
    assert world.look(1) == []
    assert world.followed == [{"vm0": TWO}]
    world.held["vm1"] = ONE
    found = {each.request_id: each for each in world.look(10)}
    assert {each.verdict for each in found.values()} == {ShadowVerdict.UNREPORTED}
    assert found["req-0"].nova_seconds == 1


def test_a_request_that_ended_before_is_no_reason(world):
    in_disorder(world)
    world.held["vm1"] = ONE
    world.look(1)
    world.decision = decided(choice(ONE), unreported=[choice(ONE, then=[TWO, THREE])])
    world.clock.now += 10
    world.take()
    world.held["vm0"] = TWO
    verdicts = [each.verdict for each in world.look(1)]
    assert verdicts == [ShadowVerdict.UNREPORTED] * 2 + [ShadowVerdict.OTHER]


def test_hosts_that_changed_until_the_choice_was_seen_are_looked_at_then(world):
    world.decision = decided(choice(ONE, then=[TWO]))
    world.take()
    world.held["vm0"] = TWO
    world.changes = Changes(fuller={ONE})
    assert [each.verdict for each in world.look(1)] == [ShadowVerdict.CHANGED]


def test_what_waits_is_bounded(world):
    for _ in range(MOST_WAITING + 3):
        world.take()
    assert [each.verdict for each in world.look()] == [ShadowVerdict.UNKNOWN] * 3


def comparison(verdict, time=1000.0, **more):
    return Compared(time, "req-1", verdict, 1, **more)


FOUND = [
    *[comparison(ShadowVerdict.SAME, 1000 + at, seconds=0.01, nova_seconds=2) for at in range(90)],
    *[comparison(ShadowVerdict.EQUAL, seconds=0.02, nova_seconds=2) for _ in range(7)],
    comparison(ShadowVerdict.OTHER, berth=("one",), nova=("two",)),
    comparison(ShadowVerdict.BOTH_REFUSED),
    comparison(ShadowVerdict.BERTH_REFUSED, nova=("<two>",), refusal="No <host>"),
    comparison(ShadowVerdict.UNKNOWN, 4600),
]


def test_the_report_counts():
    found = report.summarize(FOUND)
    assert (found.requests, found.compared) == (101, 100)
    assert found.alike_percent == pytest.approx(98)
    assert {line.verdict: line.count for line in found.lines if line.count} == {
        "same": 90,
        "equal": 7,
        "other": 1,
        "both-refused": 1,
        "berth-refused": 1,
        "unknown": 1,
    }
    assert [each.verdict for each in found.differences] == [ShadowVerdict.BERTH_REFUSED, ShadowVerdict.OTHER]
    assert report.sentence(found) == (
        "Of 100 requests in 1.0 h: 1 refused that nova-scheduler served, 1 unexplained; 98.0 % the same or of "
        "equal weight, 0.0 % another by placements that no compute has reported yet, 0.0 % by hosts that changed "
        "meanwhile; decided in 10 ms (median), where the choice of nova-scheduler was seen after 2.0 s."
    )


def test_metrics_have_each_verdict():
    metrics = metrics_text(report.metrics(report.summarize(FOUND)))
    assert 'berth_shadow_requests{verdict="same"} 90.0' in metrics
    assert "berth_shadow_refused 1.0" in metrics
    assert "berth_shadow_unexplained 1.0" in metrics


def test_a_report_on_nothing_says_so():
    found = report.summarize([])
    assert report.sentence(found) == "0 requests; none was compared yet."
    shown = report.shown(found, NOW)
    assert (shown.status, shown.head.look) == (1, "")
    assert "none was compared" in html_of(shown)


NOW = "2026-01-01T00:00:00+00:00"


def test_each_difference_is_shown_and_no_markup_of_others():
    shown = report.shown(report.summarize(FOUND), NOW)
    page = html_of(shown)
    assert "&lt;two&gt;" in page
    assert "<two>" not in page
    outcomes, differences = (table.texts()[1] for table in shown.tables)
    assert ("req-1", "one", "two", "other") in differences
    assert (90, 90.0, "the same host") in outcomes
    assert shown.head.look == "bad"


def test_differences_that_are_explained_are_not_bad():
    alike = [comparison(one) for one in (ShadowVerdict.SAME, ShadowVerdict.UNREPORTED, ShadowVerdict.CHANGED)]
    assert report.shown(report.summarize(alike), NOW).head.look == "good"
    other = [*alike, comparison(ShadowVerdict.OTHER)]
    assert report.shown(report.summarize(other), NOW).head.look == ""


def test_comparisons_are_for_their_owner_alone(tmp_path):
    (tmp_path / "berth-shadow.jsonl").touch(0o644)  # of an earlier version
    file = ComparisonFile(tmp_path)
    file.write(comparison(ShadowVerdict.SAME, 9.0))
    file.doRollover()
    file.write(comparison(ShadowVerdict.SAME, 9.0))
    file.close()
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert modes == {"berth-shadow.jsonl": 0o600, "berth-shadow.jsonl.1": 0o600}


def test_comparisons_are_read_from_all_files_and_broken_lines_are_skipped(tmp_path):
    (tmp_path / "berth-shadow.jsonl.1").write_text(
        json.dumps({"time": 5, "request_id": "old", "verdict": "same", "instances": 1}) + "\nbroken\n"
    )
    file = ComparisonFile(tmp_path)
    file.write(comparison(ShadowVerdict.OTHER, 9.0))
    file.close()
    assert [each.request_id for each in report.read(tmp_path)] == ["old", "req-1"]
    assert [each.request_id for each in report.read(tmp_path, since=6)] == ["req-1"]
