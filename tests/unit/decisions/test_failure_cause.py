"""The cause of a failed request, from its document."""

from pathlib import Path
import re

import pytest

from scheduler.claims.claimer import TOO_LATE
from scheduler.decisions.document import (
    EXCLUDED,
    REJECTED,
    Candidates,
    Decision,
    Error,
    Flavor,
    Relaxed,
    Step,
    Verdict,
    decode,
    encode,
)
from scheduler.decisions.failure_cause import REMEDIES, CauseCode, cause_of
from scheduler.filters import builtin
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.selection.host_claiming import NOT_ENOUGH

PAGE = Path(__file__).resolve().parents[3] / "doc/source/when-no-host-is-found.rst"

NO_HOST = f"No valid host was found. {NOT_ENOUGH}"


def failed(text=NO_HOST, kind="NoValidHost", found=None, **values):
    decision = Decision(
        time="2026-11-23T12:00:00.000+00:00",
        request_id="req-1",
        kind="build",
        project_id="p",
        instances=["i", "j"],
        flavor=Flavor(),
        availability_zone=None,
        result="failed",
        error=Error(kind, text),
        candidates=found or Candidates(source="placement", hosts=12, known=12, allowed=12),
        **values,
    )
    return decode(encode(decision))


def relaxed(*kinds, hosts=3, without=("A", "B"), limits=()):
    names = list(without[: len(kinds)])
    return Relaxed(names, hosts, cut=False, limits=list(limits), text="-", kinds=list(kinds))


def empty(*found, at="later"):
    return failed(found=Candidates(source="placement", relaxed=list(found), relaxed_at=at))


def step(name, start, end, instance="i"):
    return Step(instance, name, start, end, applies=True)


def filtered(*steps, verdicts=()):
    return failed(filters=list(steps), verdicts=list(verdicts))


def refused(next_step=ClaimState.NEXT_HOST):
    return {"i": [ClaimEvent(1, "cmp-1", 409, "no room", next_step)]}


@pytest.mark.parametrize(
    ("decision", "code", "subject", "words"),
    [
        (empty(relaxed("trait")), "trait", "A", "3 hosts would be suitable without A"),
        (
            empty(relaxed("disabled")),
            "disabled",
            "A",
            "3 hosts would be suitable, but the compute services are disabled",
        ),
        (
            empty(relaxed("amount", limits=["VCPU max_unit 64 on 3 hosts"])),
            "resources",
            "A",
            "no suitable host can provide A (VCPU max_unit 64 on 3 hosts)",
        ),
        (empty(relaxed("aggregate", hosts=1)), "aggregate", "A", "1 host would be suitable without A"),
        (
            empty(relaxed("availability zone")),
            "availability_zone",
            "A",
            "3 hosts would be suitable without A",
        ),
        (empty(relaxed("host")), "host", "A", "3 hosts would be suitable without A"),
        (
            empty(relaxed("availability zone", hosts=8), relaxed("disabled", hosts=4)),
            "disabled",
            "A",
            "4 hosts would be suitable, but the compute services are disabled",
        ),
        (
            empty(relaxed("trait", hosts=80), relaxed("amount", hosts=1)),
            "resources",
            "A",
            "no suitable host can provide A",
        ),
        (empty(relaxed("amount", "trait")), "trait", "A and B", "3 hosts would be suitable without A and B"),
        (empty(), "combination", "", "no host would be suitable without one or two of the constraints"),
        (empty(relaxed()), "changed", "", "3 hosts would be suitable now: the cloud has changed since"),
        (empty(at=None), "not_offered", "", "Placement offers no host"),
        (
            failed(found=Candidates(source="placement", hosts=2, known=0, allowed=0)),
            "unknown_hosts",
            "",
            "none of 2 hosts is known in a cell that takes part",
        ),
        (
            failed(
                found=Candidates(source="mirror", hosts=2, known=2, allowed=0),
                verdicts=[Verdict(EXCLUDED, None, "ignored", 1), Verdict(EXCLUDED, None, "not forced", 4)],
            ),
            "excluded",
            "",
            "the request excludes 2 hosts: not forced",
        ),
        (
            filtered(step("ComputeFilter", 9, 5), step("NUMATopologyFilter", 5, 0)),
            "numa",
            "NUMATopologyFilter",
            "NUMATopologyFilter rejected 5 of 5 hosts",
        ),
        (
            filtered(step("IoOpsFilter", 9, 5), step("PciPassthroughFilter", 5, 4), step("OwnFilter", 4, 0)),
            "filter",
            "OwnFilter",
            "OwnFilter rejected 4 of 4 hosts",
        ),
        (
            filtered(
                step("ComputeFilter", 9, 1),
                step("IoOpsFilter", 1, 1),
                step("ServerGroupAntiAffinityFilter", 1, 0, "j"),
            ),
            "server_group",
            "ServerGroupAntiAffinityFilter",
            "ServerGroupAntiAffinityFilter rejected 1 of 1 host",
        ),
        (
            filtered(step("ComputeFilter", 9, 1), step("ComputeFilter", 4, 0)),
            "compute_down",
            "ComputeFilter",
            "ComputeFilter rejected 4 of 4 hosts",
        ),
        (
            filtered(
                step("ComputeFilter", 3, 0),
                verdicts=[
                    Verdict(REJECTED, 0, "service last seen 84 s ago, limit 60 s", 1),
                    Verdict(REJECTED, 0, "service disabled (kernel update)", 2),
                ],
            ),
            "disabled",
            "ComputeFilter",
            "ComputeFilter rejected 3 of 3 hosts: service disabled (kernel update)",
        ),
        (
            failed(claims=refused(), filters=[step("ComputeFilter", 3, 3)]),
            "claims",
            "",
            "1 claim refused, the last on host cmp-1: no room",
        ),
        (
            failed(
                found=Candidates(source="placement"), claims=refused(), filters=[step("ComputeFilter", 3, 3)]
            ),
            "claims",
            "",
            "1 claim refused, the last on host cmp-1: no room",
        ),
        (
            failed(filters=[step("ComputeFilter", 3, 3)], claims=refused(ClaimState.GRANTED)),
            "unclaimable",
            "",
            "hosts passed, but none can be claimed: they are mapped to no cell, or no candidate is left",
        ),
        (
            failed(f"No valid host was found. {TOO_LATE}"),
            "late",
            "",
            "hosts were chosen, but its caller has given up by now",
        ),
        (
            failed("No valid host was found. No such host - host: h1 node: None ", found=Candidates()),
            "request",
            "No such host - host: h1 node: None",
            "No such host - host: h1 node: None",
        ),
        (
            failed("Scheduling failed: no such tenant", "RequestFilterFailed", found=Candidates()),
            "request",
            "Scheduling failed: no such tenant",
            "Scheduling failed: no such tenant",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_cause_is_what_left_no_host(decision, code, subject, words):
    found = cause_of(decision)
    assert (found.code, found.subject, found.words) == (code, subject, words)
    assert found.remedy


def test_requests_that_were_served_or_ended_by_an_outage_have_none():
    served = failed()
    served.error = None
    assert cause_of(served) is None
    assert cause_of(failed("The hosts of these cells are not known", "HostsUnknown")) is None


def test_findings_of_an_earlier_release_have_no_kinds():
    assert cause_of(empty(Relaxed(["a trait"], 3, cut=False, limits=[], text="-"))).code == "not_offered"


def test_the_documentation_lists_each_cause_with_its_remedy():
    listed = re.findall(r"^   \* - ``(\w+)``\n     - .*\n     - (.*)$", PAGE.read_text(), re.MULTILINE)
    assert dict(listed) == REMEDIES
    assert REMEDIES.keys() == set(CauseCode)


def test_each_filter_of_nova_that_rejects_hosts_has_a_cause_of_its_own():
    codes = {cls.__name__: cause_of(filtered(step(cls.__name__, 1, 0))).code for cls in builtin.defined()}
    assert {name for name, code in codes.items() if code == "filter"} == {"AllHostsFilter", "RetryFilter"}
