"""What became of a host in decisions: where it was lost, and what they do not tell."""

from typing import NamedTuple

import pytest

from scheduler.decisions.document import (
    ALTERNATE,
    CHOSEN,
    EXCLUDED,
    PASSED,
    REFUSED,
    REJECTED,
    Best,
    CandidateOrigin,
    Constraint,
    Decision,
    Error,
    Failing,
    FilterStep,
    Hosts,
    Out,
    RequestedFlavor,
    Weights,
    Why,
)
from scheduler.decisions.host_history import NOT_NAMED, NOT_OFFERED, Loss, Unexplained, history_of, merged
from scheduler.placement.claim_events import ClaimEvent, ClaimState

DISABLED = Constraint("an enabled compute service", "disabled")


class Verdict(NamedTuple):
    """What became of a host: the outcome, the index of the filter, and why."""

    outcome: str
    step: int | None = None
    reason: str = ""


def decision(
    number=1, *, failed=False, source="placement", unanswered=False, disabled=(), flavor="m1", **verdicts
):
    """A decision that names hosts with their verdicts; h-best is the best, others that passed follow."""
    found = list({"best": Verdict(CHOSEN), **verdicts}.items())
    names = [name for name, _ in found]
    ranked = [i for i, (_, each) in enumerate(found) if each.outcome in {CHOSEN, ALTERNATE, PASSED}]
    filters = [
        FilterStep("i", "ComputeFilter", 5, 4, applies=True),
        FilterStep("i", "NUMATopologyFilter", 4, 3, applies=True),
    ]
    excluded, claims = [], []
    for name, each in found:
        if each.step is not None and each.reason:
            filters[each.step].out.append(Out(each.reason, 1, [name]))
        elif each.outcome == EXCLUDED:
            excluded.append(Out(each.reason, 1, [name]))
        elif each.outcome == REFUSED:
            claims.append(ClaimEvent(1, name, 409, each.reason, ClaimState.NEXT_HOST))
    weights = Weights("RAMWeigher", [10.0 - i for i in range(len(ranked))], 0.0, 10.0, 1.0)
    return Decision(
        time=f"2026-11-23T12:00:{number:02}.000+00:00",
        request_id=f"req-{number}",
        kind="build",
        project_id="p",
        instances=["i"],
        flavor=RequestedFlavor(name=flavor),
        availability_zone="az1",
        error=Error("NoValidHost", "-") if failed else None,
        candidates=CandidateOrigin(source=source, excluded=excluded, failed=unanswered),
        claims={"i": claims} if claims else {},
        why=Why(9, constraints=[DISABLED], failing=[Failing([0], len(disabled), list(disabled))])
        if disabled
        else None,
        filters=filters,
        hosts=Hosts(
            host=names,
            node=[f"{name}.domain" for name in names],
            cell=[0] * len(names),
            zone=[0] * len(names),
            outcome=[each.outcome for _, each in found],
            step=[-1 if each.step is None else each.step for _, each in found],
            failing=[-1] * len(names),
            cells={0: "cell1"},
            zones={0: "az1"},
        ),
        best=Best(ranked, [None] * len(ranked), [weights]),
    )


@pytest.mark.parametrize(
    ("made", "losses"),
    [
        (
            [
                decision(1, h=Verdict(REJECTED, 1, "CPU pinning needs 4 free CPUs, has 2")),
                decision(2, h=Verdict(REJECTED, 1, "CPU pinning needs 4 free CPUs, has 1")),
                decision(3, h=Verdict(REJECTED, 0, "service disabled (x)")),
            ],
            [
                Loss("NUMATopologyFilter", "CPU pinning needs 4 free CPUs, has 1 to 2", 2),
                Loss("ComputeFilter", "service disabled (x)", 1),
            ],
        ),
        ([decision(1, h=Verdict(REJECTED, 1))], [Loss("NUMATopologyFilter", "reason not computed")]),
        ([decision(1, h=Verdict(EXCLUDED, None, "ignored"))], [Loss("request", "ignored")]),
        ([decision(1, h=Verdict(REFUSED, None, "no room"))], [Loss("claim", "no room")]),
        (
            [decision(1, h=Verdict(PASSED)), decision(2, h=Verdict(ALTERNATE))],
            [Loss("weights", "it passed; the best host has more weight, most of it from RAMWeigher: 0.1", 2)],
        ),
        ([decision(1, h=Verdict(CHOSEN))], []),
        (
            [decision(1, failed=True, h=Verdict(PASSED))],
            [Loss("request", "it passed, but the request failed")],
        ),
    ],
)
def test_where_a_host_was_lost(made, losses):
    assert history_of(made, "h").losses == losses


def test_how_often_it_was_considered():
    made = [
        decision(1, h=Verdict(PASSED)),
        decision(2, a=Verdict(PASSED), h=Verdict(ALTERNATE)),
        decision(3, h=Verdict(CHOSEN)),
        decision(4, h=Verdict(REJECTED, 1, "-")),
        decision(5),
        decision(6, source="table", h=Verdict(PASSED)),
        decision(7, failed=True, unanswered=True),
    ]
    for name in ("h", "h.domain"):
        found = history_of(made, name)
        assert (found.requests, found.considered, found.chosen, found.alternate) == (5, 4, 1, 1)
        assert found.since == made[0].time


@pytest.mark.parametrize(
    ("failed", "disabled", "reason"),
    [
        (True, [], NOT_OFFERED),
        (False, [], NOT_NAMED),
        (True, ["h"], "Placement did not offer it: an enabled compute service"),
    ],
)
def test_requests_that_do_not_tell_are_those_of_a_flavor_and_a_zone(failed, disabled, reason):
    made = [decision(number, failed=failed, disabled=disabled) for number in (2, 3, 1)] + [
        decision(4, failed=failed, disabled=disabled, flavor="m2")
    ]
    assert history_of(made, "h").unexplained == [
        Unexplained(reason, "m1", "az1", 3, "req-3", "2026-11-23T12:00:03.000+00:00"),
        Unexplained(reason, "m2", "az1", 1, "req-4", "2026-11-23T12:00:04.000+00:00"),
    ]


def test_a_host_of_another_cell_may_have_been_offered():
    moved = decision(1, failed=True, disabled=["h"])
    moved.candidates.hosts, moved.candidates.known = 4, 2
    (one,) = history_of([moved], "h").unexplained
    assert one.reason == "it was not considered: an enabled compute service"


def test_what_workers_tell_is_one_history():
    made = [
        decision(1, h=Verdict(PASSED)),
        decision(2, h=Verdict(REJECTED, 0, "last seen 70 s ago")),
        decision(3, failed=True),
        decision(4, h=Verdict(REJECTED, 0, "last seen 90 s ago")),
        decision(5, h=Verdict(CHOSEN)),
        decision(6, failed=True),
    ]
    assert merged([history_of(made[:3], "h"), history_of(made[3:], "h")]) == history_of(made, "h")
    assert merged([]) == history_of([], "h")
