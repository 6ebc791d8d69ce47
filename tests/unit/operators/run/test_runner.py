"""A run: what is moved, what is done when the cloud does something else, and what a killed run leaves to the next."""

from contextlib import contextmanager

import pytest

from scheduler.errors import PlacementUnavailable
from scheduler.operators.run.journal import NOTHING, RunJournal
from scheduler.operators.run.nova_api import Action, NotAllowed, Refused, Unanswered
from scheduler.operators.run.one_move import RunLimits
from scheduler.operators.run.runner import NotBegun, Runner
from scheduler.operators.snapshot.snapshot import CloudUnreadable
from tests.unit.operators.run.fake_cloud import Crash, FakeCloud, Lines


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state" / "drain.json"


def start(cloud, file, halted=lambda: False, lines=None, **limits):
    """Run until it ends; returns its outcome."""
    with RunJournal(file) as journal:
        runner = Runner(
            cloud,
            cloud,
            cloud.plan,
            journal,
            limits=RunLimits(**limits),
            display=lines or Lines(),
            is_halted=halted,
            timing=cloud.timing,
        )
        return runner.run("maintenance", evacuate=cloud.evacuates, repeats=cloud.repeats)


def hosts_of(cloud):
    return {uuid: one.compute_host for uuid, one in cloud.servers.items()}


def states_of(outcome):
    return {step.instance: step.state for step in outcome.moves}


def calls_of(cloud, *names):
    return [call for call in cloud.calls if call[0] in names]


def interrupt():
    raise KeyboardInterrupt


def three():
    return FakeCloud().put("i1").put("i2", state="stopped").put("i3", state="paused")


# -- what is moved


def test_a_host_is_disabled_with_the_reason_then_emptied_live_and_cold(file):
    cloud, lines = three(), Lines()
    outcome = start(cloud, file, lines=lines)
    assert (outcome.state, outcome.why) == ("done", None)
    assert cloud.calls[0] == ("disable", "h1")
    assert (cloud.machines["h1"].enabled, cloud.machines["h1"].reason) == (False, "maintenance")
    assert "h1" not in hosts_of(cloud).values()
    assert {call[1]: call[2] for call in calls_of(cloud, "move")} == {
        "i1": "live",
        "i2": "cold",
        "i3": "live",
    }
    assert calls_of(cloud, "confirm") == [("confirm", "i2")]
    assert {one.vm_state for one in cloud.servers.values()} == {"active", "stopped", "paused"}
    assert [line.split(" ")[0] for line in lines.lines] == ["disabled", "moved", "moved", "moved"]
    assert "moved name-i1 (i1): h1 -> h3, live, 10 s" in lines.lines
    assert lines.counts[-1] == (3, 3)


@pytest.mark.parametrize(
    ("limits", "most"), [({}, 1), ({"parallel": 3, "per_host": 3}, 3), ({"parallel": 3}, 1)]
)
def test_so_many_moves_at_the_same_time(file, limits, most):
    cloud = FakeCloud()
    for number in range(6):
        cloud.put(f"i{number}")
    assert start(cloud, file, **limits).state == "done"
    assert cloud.most_at_once == most


def test_a_move_waits_for_those_that_it_needs(file):
    cloud = FakeCloud().put("a").put("b").put("c")
    plan = cloud.plan()
    plan.steps[1].after = ["a"]
    first, begun = [plan], []
    cloud.plan = lambda done=NOTHING: first.pop() if first else FakeCloud.plan(cloud, done)
    cloud.before_each = lambda _: begun.append([call[1] for call in calls_of(cloud, "move")])
    assert start(cloud, file, parallel=3, per_host=3).state == "done"
    assert ["a", "c"] in begun
    assert begun[-1][:3] == ["a", "c", "b"]


def test_a_host_that_was_disabled_before_is_left_so(file):
    cloud = three()
    cloud.machines["h1"].enabled, cloud.machines["h1"].reason = False, "berth-plan drain --run by eve"
    assert start(cloud, file, lines=(lines := Lines())).state == "done"
    assert lines.lines[0] == "h1 is disabled already: berth-plan drain --run by eve"
    assert cloud.machines["h1"].reason == "berth-plan drain --run by eve"
    assert calls_of(cloud, "disable") == []


def test_balance_is_not_planned_again_while_nothing_differs(file):
    cloud = three()
    cloud.repeats = False
    assert start(cloud, file).state == "done"
    assert cloud.plans == 1


def test_an_evacuated_instance_is_active_before_it_has_its_new_host(file):
    cloud = FakeCloud(evacuates=True, ends={"i1": "late host"}).put("i1").put("i2")
    cloud.machines["h1"].up = False
    outcome = start(cloud, file)
    assert (outcome.state, states_of(outcome)) == ("done", {"i1": "moved", "i2": "moved"})
    assert len(calls_of(cloud, "move")) == 2


# -- what differs from the plan


def test_instances_created_in_the_middle_are_moved_too(file):
    cloud = three()
    cloud.later(5, lambda: cloud.put("new"))
    outcome = start(cloud, file)
    assert (outcome.state, hosts_of(cloud)["new"] != "h1") == ("done", True)


def test_an_instance_that_is_being_built_is_waited_for(file):
    cloud = three().put("new", state="building", task="spawning")
    cloud.later(100, lambda: cloud.put("new"))
    assert start(cloud, file).state == "done"
    assert "h1" not in hosts_of(cloud).values()


def test_an_instance_with_a_task_without_end_stays_with_the_reason(file):
    cloud = three().put("busy", task="image_uploading")
    outcome = start(cloud, file)
    assert (outcome.state, [stay.instance for stay in outcome.stays]) == ("stay", ["busy"])
    assert cloud.now < 1000 + 600 + 200
    assert states_of(outcome) == {"i1": "moved", "i2": "moved", "i3": "moved"}


def test_a_busy_instance_that_nova_does_not_have_is_planned_again_once(file):
    """A reading of the whole cloud every two seconds would be a load of its own."""
    cloud = FakeCloud().put("ghost", task="deleting").put("i2").put("busy", task="image_uploading")
    server = cloud.server
    cloud.server = lambda uuid: None if uuid == "ghost" else server(uuid)
    outcome = start(cloud, file)
    assert (outcome.state, {stay.instance for stay in outcome.stays}) == ("stay", {"ghost", "busy"})
    assert (states_of(outcome), cloud.plans) == ({"i2": "moved"}, 3)


def test_what_nova_does_not_move_stays_with_the_reason(file):
    outcome = start(three().put("hurt", state="rescued"), file)
    assert outcome.state == "stay"
    assert [(stay.instance, stay.why) for stay in outcome.stays] == [
        ("hurt", "nova moves no instance that is rescued")
    ]


def test_a_deleted_instance_is_left_out(file):
    cloud = three()
    cloud.later(5, lambda: (cloud.servers.pop("i3"), cloud.allocations.pop("i3")))
    outcome = start(cloud, file)
    assert (outcome.state, states_of(outcome)["i3"]) == ("done", "gone")


def test_an_instance_that_was_deleted_while_it_moved_is_left_out(file):
    cloud = FakeCloud().put("i1")
    cloud.later(5, lambda: (cloud.servers.clear(), cloud.allocations.clear()))
    outcome = start(cloud, file)
    assert (outcome.state, states_of(outcome)) == ("done", {"i1": "gone"})


def test_an_instance_that_someone_else_moved_is_left_out(file):
    cloud = three()
    cloud.later(5, lambda: cloud.put("i3", "h2", state="paused"))
    outcome = start(cloud, file)
    assert (outcome.state, states_of(outcome)["i3"]) == ("done", "gone")
    assert [call[1] for call in calls_of(cloud, "move")] == ["i1", "i2"]


def test_an_instance_that_was_stopped_in_the_middle_is_planned_again_and_goes_cold(file):
    cloud, lines = three(), Lines()
    cloud.later(5, lambda: cloud.put("i3", state="stopped"))
    assert start(cloud, file, lines=lines).state == "done"
    assert [call[2] for call in calls_of(cloud, "move") if call[1] == "i3"] == ["cold"]
    assert "refused name-i3 (i3): h1 -> h3, live: it is stopped by now, not paused" in lines.lines


def test_a_host_that_fills_up_in_the_middle_is_planned_around(file):
    cloud = three()
    for name in ("h2", "h3"):
        cloud.machines[name].room = 2
    cloud.later(5, lambda: cloud.put("foreign", "h2"))
    outcome = start(cloud, file, parallel=2, per_host=2)
    assert outcome.state == "done"
    assert cloud.plans > 1


def test_a_cloud_without_room_leaves_the_rest_with_novas_reason(file):
    cloud = three()
    for name in ("h2", "h3"):
        cloud.machines[name].room = 1
    outcome = start(cloud, file)
    assert outcome.state == "stay"
    assert [(stay.instance, stay.why) for stay in outcome.stays] == [("i3", "no room")]


def test_what_nova_refuses_twice_stays_with_its_reason_and_the_others_go_on(file):
    cloud = three()
    cloud.begins["i1"] = [Refused("409 Instance i1 is locked"), Refused("409 Instance i1 is locked")]
    outcome = start(cloud, file)
    assert outcome.state == "stay"
    assert [(stay.instance, stay.why) for stay in outcome.stays] == [("i1", "409 Instance i1 is locked")]
    assert states_of(outcome) == {"i1": "refused", "i2": "moved", "i3": "moved"}
    assert len([call for call in calls_of(cloud, "move") if call[1] == "i1"]) == 2


def test_the_next_command_tries_again_what_nova_refused(file):
    cloud = three()
    cloud.begins["i1"] = [Refused("409 Instance i1 is locked")] * 2
    assert start(cloud, file).state == "stay"
    assert start(cloud, file).state == "done"


def test_what_nova_refuses_once_is_moved_in_the_second_round_to_another_host(file):
    cloud = three()
    cloud.begins["i1"] = [Refused("409 conflict")]
    outcome = start(cloud, file)
    assert (outcome.state, states_of(outcome)["i1"]) == ("done", "moved")
    assert [call[3] for call in calls_of(cloud, "move") if call[1] == "i1"] == ["h3", "h2"]


def test_a_host_that_refuses_all_is_planned_around(file):
    cloud = three()
    cloud.begins["h3"] = [Refused("400 Unacceptable CPU info")] * 9
    assert start(cloud, file).state == "done"
    assert set(hosts_of(cloud).values()) == {"h2"}


@pytest.mark.parametrize(
    ("ends", "evacuates", "why"),
    [
        ("no host", False, "NoValidHost: No valid host was found"),
        ("compute error", False, "LibvirtError: the guest did not come"),
        ("compute error", True, "LibvirtError: the guest did not come"),
        ("restarted", False, "nova gives no reason"),
    ],
)
def test_instances_that_cannot_be_moved_hold_up_no_others(file, ends, evacuates, why):
    """However many, and whichever are first."""
    cloud = FakeCloud(evacuates=evacuates)
    for number in range(30):
        cloud.put(f"a{number:02}").ends[f"a{number:02}"] = ends
    for number in range(10):
        cloud.put(f"b{number}")
    cloud.machines["h1"].up = not evacuates
    outcome = start(cloud, file)
    assert (outcome.state, outcome.moved, cloud.plans) == ("stay", 10, 3)
    assert {(stay.instance[0], stay.why) for stay in outcome.stays} == {("a", why)}
    assert len(outcome.stays) == 30
    tries = [call[1:] for call in calls_of(cloud, "move") if call[1] == "a00"]
    assert [target for *_, target in tries] == ["h3", "h2"]


def test_moves_that_need_another_that_fails_are_planned_again(file):
    cloud = FakeCloud(ends={"a": "no host"}).put("a").put("b").put("c")
    plan = cloud.plan()
    plan.steps[1].after = ["a"]
    first = [plan]
    cloud.plan = lambda done=NOTHING: first.pop() if first else FakeCloud.plan(cloud, done)
    assert start(cloud, file).moved == 2
    assert [call[1] for call in calls_of(cloud, "move")] == ["a", "c", "a", "b"]


def test_an_instance_that_nova_does_not_have_stays_with_the_reason(file):
    """Its row is in the cell's database, but no instance mapping leads to it."""
    cloud = FakeCloud().put("ghost").put("i2")
    server = cloud.server
    cloud.server = lambda uuid: None if uuid == "ghost" else server(uuid)
    outcome = start(cloud, file)
    assert (outcome.state, states_of(outcome)["i2"], cloud.plans) == ("stay", "moved", 3)
    assert [(stay.instance, stay.why) for stay in outcome.stays] == [
        ("ghost", "nova's API has no such instance")
    ]


def test_what_a_balance_does_not_move_stays_with_the_reason(file):
    cloud = three()
    cloud.repeats = False
    cloud.ends["i1"] = "no host"
    outcome = start(cloud, file)
    assert (outcome.state, outcome.moved, cloud.plans) == ("stay", 2, 1)
    assert [stay.instance for stay in outcome.stays] == ["i1"]


def test_a_move_that_is_left_to_nova_is_shown_once_and_not_in_each_round(file):
    cloud, lines = FakeCloud(ends={"i1": "hangs", "i2": "no host"}).put("i1").put("i2"), Lines()
    start(cloud, file, lines=lines, parallel=2, per_host=2)
    assert cloud.plans > 2
    assert sum(line.startswith("left to nova") for line in lines.lines) == 1


@pytest.mark.parametrize("evacuates", [False, True])
def test_a_move_without_end_is_left_to_nova_and_the_others_go_on(file, evacuates):
    cloud, lines = FakeCloud(evacuates=evacuates, ends={"i1": "hangs"}).put("i1").put("i2"), Lines()
    cloud.machines["h1"].up = not evacuates
    outcome = start(cloud, file, lines=lines)
    assert (outcome.state, states_of(outcome)) == ("stay", {"i1": "requested", "i2": "moved"})
    way = "evacuate" if evacuates else "live"
    assert (
        f"left to nova name-i1 (i1): h1 -> h3, {way}: not moved within 3600 s; nova goes on with it"
        in lines.lines
    )
    ended = cloud.now
    assert ended < 1000 + 3600 + 600 + 100
    outcome = start(cloud.put("i3"), file)
    assert (outcome.state, states_of(outcome)["i3"], cloud.now < ended + 600 + 100) == ("stay", "moved", True)
    assert start(cloud.put("i1", "h3"), file).state == "done"
    assert [call[1] for call in calls_of(cloud, "move")] == ["i1", "i2", "i3"]


def test_open_moves_of_a_host_that_died_are_evacuations_at_once(file):
    cloud = three()
    cloud.resets = True
    cloud.ends["i1"] = "hangs"
    cloud.later(3, interrupt)
    assert states_of(start(cloud, file)) == {"i1": "requested"}
    cloud.machines["h1"].up, cloud.evacuates, cloud.ends, begun = False, True, {}, cloud.now
    outcome = start(cloud, file)
    assert (outcome.state, outcome.moved, cloud.now < begun + 60) == ("done", 3, True)


def test_a_request_without_an_answer_that_nova_carried_out_is_followed(file):
    cloud = three()
    cloud.begins["i1"] = [Unanswered("504 timeout")]
    assert start(cloud, file).state == "done"
    assert len([call for call in calls_of(cloud, "move") if call[1] == "i1"]) == 1


def test_a_resize_of_a_user_keeps_allocations_which_is_said(file):
    cloud = three()
    cloud.allocations["resize"] = {"node-h1"}
    outcome = start(cloud, file)
    assert (outcome.state, outcome.held_in_placement) == ("stay", {"h1": ["resize"]})


# -- surprises


@pytest.mark.parametrize(
    ("ends", "why"),
    [
        ("broken", "name-i1 (i1): it is in error on h1: LibvirtError: the guest did not come"),
        ("error", "name-i1 (i1): it is in error on h3: disk is gone"),
        ("lost", "name-i1 (i1): it is on host h9, neither h1 nor h3"),
        ("allocations stay", "name-i1 (i1): Placement still has it on h1"),
    ],
)
def test_the_run_stops_at_a_surprise_and_says_what_is_done_and_left(file, ends, why):
    cloud = three()
    cloud.ends["i1"] = ends
    outcome = start(cloud, file)
    assert (outcome.state, outcome.why) == ("stopped", why)
    assert [step.instance for step in outcome.left] == ["i2", "i3"]
    assert [call[1] for call in calls_of(cloud, "move")] == ["i1"]


def test_a_surprise_of_the_last_command_stops_the_next_one_before_it_disables_a_host(file):
    cloud = three()
    cloud.later(3, interrupt)
    start(cloud, file, parallel=2, per_host=2)
    cloud.machines["h1"].enabled = True
    cloud.put("i1", "h3", state="error")
    outcome = start(cloud, file)
    assert (outcome.state, states_of(outcome)) == ("stopped", {"i1": "failed", "i2": "moved"})
    assert [call[0] for call in cloud.calls] == ["disable", "move", "move", "confirm"]


def test_open_moves_end_before_the_run_stops(file):
    cloud = three()
    cloud.ends["i1"] = "broken"
    outcome = start(cloud, file, parallel=2, per_host=2)
    assert outcome.state == "stopped"
    assert states_of(outcome) == {"i1": "failed", "i2": "moved"}


def test_credentials_that_nova_refuses_stop_the_run_once_open_moves_have_ended(file):
    cloud = three()
    cloud.begins["i2"] = [NotAllowed("403 Policy")]
    outcome = start(cloud, file, parallel=2, per_host=2)
    assert (outcome.state, states_of(outcome)) == ("stopped", {"i1": "moved", "i2": "refused"})
    assert outcome.why == "Nova does not let these credentials move name-i2 (i2): 403 Policy"


@pytest.mark.parametrize(("open_before", "moved", "left"), [(False, [], 3), (True, ["i1"], 2)])
def test_a_host_that_nova_does_not_let_disable_stops_the_run_before_it_begins_moves(
    file, open_before, moved, left
):
    cloud = three()
    if open_before:
        cloud.later(3, interrupt)
        start(cloud, file)
        cloud.machines["h1"].enabled = True
    begun = len(calls_of(cloud, "move"))
    cloud.forbidden = ("disable",)
    outcome = start(cloud, file)
    assert (outcome.state, outcome.why) == ("stopped", "Cannot disable host h1: 403 Policy")
    assert [move.instance for move in outcome.moves if move.state == "moved"] == moved
    assert (len(outcome.left), len(calls_of(cloud, "move"))) == (left, begun)


def test_a_confirmation_that_nova_does_not_allow_stops_the_run_once_open_moves_have_ended(file):
    cloud = FakeCloud(forbidden=("confirm",)).put("a", state="stopped").put("b").put("c")
    why = "Nova does not let these credentials confirm name-a (a): 403 Policy"
    outcome = start(cloud, file, parallel=2, per_host=2)
    assert (outcome.state, outcome.why) == ("stopped", why)
    assert states_of(outcome) == {"a": "requested", "b": "moved"}
    assert cloud.now < 1100
    cloud.forbidden = ()
    outcome = start(cloud, file)
    assert (outcome.state, set(states_of(outcome).values())) == ("done", {"moved"})
    assert not any(move.why for move in outcome.moves)


def test_an_api_that_is_away_is_waited_for_and_not_for_ever(file):
    cloud = three()
    cloud.later(5, lambda: vars(cloud).update(unavailable_until=cloud.now + 200))
    assert start(cloud, file).state == "done"
    cloud = three()
    cloud.later(5, lambda: vars(cloud).update(unavailable_until=1e9))
    outcome = start(cloud, file.with_name("other"))
    assert outcome.state == "stopped"
    assert "unavailable for 300 s: 503 no backend" in outcome.why
    assert states_of(outcome) == {"i1": "requested"}


def test_the_whole_run_has_a_bound(file):
    cloud = FakeCloud()
    for number in range(20):
        cloud.put(f"i{number:02}")
    outcome = start(cloud, file, total=60.0)
    assert (outcome.state, outcome.why) == ("stopped", "The run has taken 60 s in all")
    assert cloud.now < 1000 + 60 + 5
    assert start(cloud, file).state == "done"


@pytest.mark.parametrize(
    ("seconds", "error", "state", "why"),
    [
        (200, CloudUnreadable("A cell's database cannot be read"), "done", None),
        (200, PlacementUnavailable("503"), "done", None),
        (
            9999,
            CloudUnreadable("A cell's database cannot be read"),
            "stopped",
            "Nova or Placement is unavailable for 300 s: A cell's database cannot be read",
        ),
        (9999, KeyError("x"), "stopped", "an unexpected error: KeyError('x')"),
    ],
)
def test_what_is_unavailable_for_the_next_plan_is_waited_for(file, seconds, error, state, why):
    cloud, plan = three(), FakeCloud.plan

    def planned(done=NOTHING):
        if 1003 < cloud.now < 1003 + seconds:
            raise error
        return plan(cloud, done)

    cloud.plan = planned
    outcome = start(cloud, file)
    assert (outcome.state, outcome.why, outcome.moved) == (state, why, 3)


# -- before anything is changed


def test_a_host_that_is_down_is_not_drained(file):
    cloud = three()
    cloud.machines["h1"].up = False
    with pytest.raises(NotBegun, match="Host h1 is down: nothing can be moved off it"):
        start(cloud, file)
    assert cloud.calls == []


def test_a_host_that_is_up_is_not_evacuated(file):
    cloud = three()
    cloud.evacuates = True
    with pytest.raises(NotBegun, match="Host h1 is up, and nova evacuates only hosts that are down"):
        start(cloud, file)
    assert cloud.calls == []


# -- hosts that are down


def dead():
    cloud = three()
    cloud.machines["h1"].up = False
    cloud.evacuates = True
    return cloud


def test_a_dead_host_is_evacuated_but_for_what_needs_a_reset(file):
    cloud = dead()
    outcome = start(cloud, file)
    assert outcome.state == "stay"
    assert states_of(outcome) == {"i1": "moved", "i2": "moved"}
    assert [stay.instance for stay in outcome.stays] == ["i3"]
    assert calls_of(cloud, "reset") == []


def test_states_are_reset_if_that_is_wanted(file):
    cloud = dead()
    cloud.resets = True
    assert start(cloud, file).state == "done"
    assert calls_of(cloud, "reset") == [("reset", "i3")]
    assert hosts_of(cloud)["i3"] != "h1"


def test_an_evacuation_without_a_valid_host_is_tried_again(file):
    cloud = dead()
    cloud.resets = True
    cloud.ends["i1"] = "no host"
    cloud.later(1, cloud.ends.clear)
    outcome = start(cloud, file)
    assert (outcome.state, states_of(outcome)["i1"]) == ("done", "moved")


# -- interruptions


def test_ctrl_c_while_the_first_plan_is_made_disables_no_host(file):
    cloud = three()
    assert start(cloud, file, halted=lambda: True).state == "interrupted"
    assert cloud.calls == []


def test_after_ctrl_c_open_moves_end_and_the_same_command_goes_on(file):
    cloud, lines = three(), Lines()
    outcome = start(cloud, file, halted=lambda: cloud.now > 1003, lines=lines)
    assert outcome.state == "interrupted"
    assert states_of(outcome) == {"i1": "moved"}
    assert [step.instance for step in outcome.left] == ["i2", "i3"]
    assert "waiting for the open ones" in lines.lines[-2]
    lines = Lines()
    outcome = start(cloud, file, lines=lines)
    assert outcome.state == "done"
    assert states_of(outcome) == {"i1": "moved", "i2": "moved", "i3": "moved"}
    assert lines.lines[0].endswith("1 moved, 0 open moves")


def test_ctrl_c_while_the_first_plan_is_made_lets_open_moves_of_the_last_command_end(file):
    cloud = three()
    cloud.later(3, interrupt)
    start(cloud, file)
    cloud.machines["h1"].enabled = True
    outcome = start(cloud, file, halted=lambda: True)
    assert (outcome.state, states_of(outcome)) == ("interrupted", {"i1": "moved"})
    assert [step.instance for step in outcome.left] == ["i2", "i3"]
    assert [call[0] for call in cloud.calls] == ["disable", "move"]


def test_a_second_ctrl_c_leaves_open_moves_to_nova(file):
    cloud = three()
    cloud.later(3, interrupt)
    outcome = start(cloud, file)
    assert (outcome.state, states_of(outcome)) == ("interrupted", {"i1": "requested"})
    assert cloud.now < 1005
    outcome = start(cloud, file)
    assert (outcome.state, len(calls_of(cloud, "move"))) == ("done", 3)


@contextmanager
def dying():
    with pytest.raises(Crash):
        yield


def calls_of_a_whole_run(file, make):
    cloud = make()
    start(cloud, file)
    return len(cloud.calls)


@pytest.mark.parametrize("make", [three, dead])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("pause", [0.0, 7.0, 500.0])
def test_a_run_that_is_killed_at_any_call_is_continued_without_moving_anything_twice(file, make, when, pause):
    total = calls_of_a_whole_run(file, make)
    assert total >= 3
    for number in range(1, total + 1):
        cloud = make()
        cloud.crash = (number, when)
        state = file.with_name(f"{number}.json")
        with dying():
            start(cloud, state)
        cloud.crash = ()
        cloud.sleep(pause)
        before = make().servers
        outcome = start(cloud, state)
        assert outcome.state in {"done", "stay"}
        left = {uuid for uuid, host in hosts_of(cloud).items() if host == "h1"}
        assert left == {stay.instance for stay in outcome.stays}
        assert {step.instance for step in outcome.moves if step.state == "moved"} == before.keys() - left
        carried_out = [call[1] for call in calls_of(cloud, "move")]
        lost = when == "before" and cloud.calls[number - 1][0] == "move"
        assert len(carried_out) == len(set(carried_out)) + lost
        assert cloud.machines["h1"].enabled is False


@pytest.mark.parametrize(("name", "pause"), [("resize", 0), ("resize", 3600), ("migrate", 3600)])
def test_a_cold_migration_that_a_user_began_is_not_confirmed(file, name, pause):
    """A user moves the instance between the request of the run that was killed and its successor."""
    cloud = FakeCloud().put("i1", state="stopped")
    cloud.crash = (2, "before")
    with dying():
        start(cloud, file)
    cloud.crash = ()
    cloud.sleep(pause)
    cloud.actions["i1"] = Action(name, cloud.now)
    cloud.put("i1", "h3", state="resized")
    outcome = start(cloud, file)
    assert (outcome.state, calls_of(cloud, "confirm")) == ("stopped", [])
    assert "unconfirmed resize that is not of this run" in outcome.why


def test_a_confirmation_that_takes_long_is_waited_for(file):
    cloud = FakeCloud(confirms_after=200.0).put("i1", state="stopped")
    outcome = start(cloud, file)
    assert (outcome.state, hosts_of(cloud)["i1"] != "h1") == ("done", True)


def test_a_new_run_after_one_that_is_done_reports_its_own_moves(file):
    cloud = three()
    start(cloud, file)
    cloud.put("next")
    outcome = start(cloud, file)
    assert states_of(outcome) == {"next": "moved"}
