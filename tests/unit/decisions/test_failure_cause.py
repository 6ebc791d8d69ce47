"""The cause of a failed request, from its document."""

import msgspec
import pytest

from scheduler.claims.claims import TOO_LATE
from scheduler.decisions.cause_code import ConstraintKind
from scheduler.decisions.constraints import LEFT_OUT, STALE
from scheduler.decisions.document import (
    CandidateOrigin,
    Constraint,
    Decision,
    Error,
    Failing,
    Reason,
    RequestedFlavor,
    Why,
    decode,
    encode,
)
from scheduler.decisions.failure_cause import CauseCode, cause_of, code_of_filter
from scheduler.filters import builtin
from scheduler.placement.claim_events import ClaimEvent, ClaimState
from scheduler.selection.host_claiming import NOT_ENOUGH

NO_HOST = f"No valid host was found. {NOT_ENOUGH}"


def failed(text=NO_HOST, kind="NoValidHost", found=None, **values):
    decision = Decision(
        time="2026-11-23T12:00:00.000+00:00",
        request_id="req-1",
        kind="build",
        project_id="p",
        instances=["i", "j"],
        flavor=RequestedFlavor(),
        availability_zone=None,
        result="failed",
        error=Error(kind, text),
        candidates=found or CandidateOrigin(source="placement", hosts=12, known=12, allowed=12),
        **values,
    )
    return decode(encode(decision))


VCPU = Constraint("2 VCPU", "amount")
TRAIT = Constraint("required trait A", "trait", "flavor")
ZONE = Constraint("availability zone az1", "availability zone")
SERVICE = Constraint("an enabled compute service", "disabled")
HOST = Constraint("the requested destination h1", "host")
IGNORED = Constraint("ignored by the request", "ignored host")
ANTI_AFFINITY = Constraint("ServerGroupAntiAffinityFilter", "filter", filter="ServerGroupAntiAffinityFilter")
AFFINITY = Constraint("ServerGroupAffinityFilter", "filter", filter="ServerGroupAffinityFilter")
DOWN = Constraint("ComputeFilter", "filter", filter="ComputeFilter")
SAME = Constraint("NUMATopologyFilter", "filter", filter="NUMATopologyFilter")
OWN = Constraint("OwnFilter", "filter", filter="OwnFilter")
CLAIM = Constraint("a claim that Placement grants", "claim")
ALIAS = Constraint("PCI alias gpu (1 CUSTOM_PCI)", "group", "flavor")
GROUP = Constraint("group 1 (1 VGPU)", "group", "flavor")
REFUSED = ClaimEvent(1, "h9", 409, "no room", ClaimState.GIVEN_UP)
SEVERAL = Constraint("more than one constraint of the query", "several")


def sets(*found, kind="build", offered=0, **values):
    """A decision of which hosts fail sets of constraints: (number, constraints) or (number, one, reason)."""
    constraints, failing = [], []
    for number, one, *reasons in found:
        some = [one] if isinstance(one, Constraint) else list(one)
        constraints += [each for each in some if each not in constraints]
        failing.append(Failing([constraints.index(each) for each in some], number, ["h1"], [reasons]))
    why = Why(sum(each.hosts for each in failing), constraints=constraints, failing=failing, **values)
    candidates = CandidateOrigin(source="placement", hosts=offered, known=offered, allowed=offered)
    return msgspec.structs.replace(failed(found=candidates), why=why, kind=kind)


@pytest.mark.parametrize(
    ("decision", "code", "subject", "words"),
    [
        (sets((3, TRAIT)), "trait", TRAIT.text, "3 hosts lack only required trait A (flavor)"),
        (
            sets((31, TRAIT), (4, (TRAIT, VCPU))),
            "trait",
            TRAIT.text,
            "31 hosts lack only required trait A (flavor); 4 hosts lack required trait A (flavor) and 2 VCPU",
        ),
        (sets((1, SERVICE)), "disabled", SERVICE.text, "1 host lacks only an enabled compute service"),
        (
            sets((8, ZONE), (4, SERVICE)),
            "disabled",
            SERVICE.text,
            "4 hosts lack only an enabled compute service; 8 hosts lack only availability zone az1",
        ),
        (
            sets((80, TRAIT), (3, VCPU, Reason("VCPU max_unit 1", 3, "max_unit", 1))),
            "resources",
            VCPU.text,
            "3 hosts lack only 2 VCPU: VCPU max_unit 1; 80 hosts lack only required trait A (flavor)",
        ),
        (sets((1, ALIAS)), "pci", ALIAS.text, "1 host lacks only PCI alias gpu (1 CUSTOM_PCI) (flavor)"),
        (sets((2, GROUP)), "resources", GROUP.text, "2 hosts lack only group 1 (1 VGPU) (flavor)"),
        (
            sets((1, (TRAIT, ANTI_AFFINITY)), (9, HOST)),
            "host",
            HOST.text,
            (
                "1 host is rejected by ServerGroupAntiAffinityFilter and lacks required trait A (flavor); "
                "9 hosts suit but are not the requested destination h1"
            ),
        ),
        (
            sets((1, IGNORED), kind="move"),
            "excluded",
            IGNORED.text,
            "1 host suits but is ignored by the request",
        ),
        (
            sets((3, LEFT_OUT), (1, (VCPU, LEFT_OUT)), (2, VCPU), kind="move"),
            "resources",
            VCPU.text,
            "2 hosts lack only 2 VCPU",
        ),
        (
            sets((3, LEFT_OUT), kind="move"),
            "excluded",
            LEFT_OUT.text,
            "3 hosts suit but are left out by the plan",
        ),
        (
            sets((2, ANTI_AFFINITY, Reason("1 member of group", 2)), offered=2),
            "server_group",
            "ServerGroupAntiAffinityFilter",
            "2 hosts are rejected only by ServerGroupAntiAffinityFilter: 1 member of group",
        ),
        (
            sets((2, VCPU), instances=3, number=3, placed=2, offered=2),
            "resources",
            VCPU.text,
            "for instance 3 of 3; 2 found a host, which was released; 2 hosts lack only 2 VCPU",
        ),
        (
            sets((4, (TRAIT, VCPU))),
            "combination",
            "required trait A and 2 VCPU",
            "4 hosts lack required trait A (flavor) and 2 VCPU",
        ),
        (
            sets((4, SEVERAL)),
            "combination",
            SEVERAL.text,
            "4 hosts fail more than one constraint of the query",
        ),
        (sets(suitable=3), "changed", "", "3 hosts would be suitable now: the cloud has changed since"),
        (
            msgspec.structs.replace(sets(suitable=3), claims={"i": [REFUSED]}),
            "claims",
            "h9",
            "1 claim was refused, the last on host h9: no room",
        ),
        (sets(), "not_offered", "", "no compute node is known"),
        (
            failed(found=CandidateOrigin(source="placement", hosts=2, known=0, allowed=0)),
            "unknown_hosts",
            "",
            "none of 2 hosts is known in a cell that takes part",
        ),
        (failed(), "combination", "", "what each host fails could not be found out"),
        (
            sets((5, SAME, Reason("no NUMA cell with 4 free CPUs", 5))),
            "numa",
            "NUMATopologyFilter",
            "5 hosts are rejected only by NUMATopologyFilter: no NUMA cell with 4 free CPUs",
        ),
        (sets((4, OWN)), "filter", "OwnFilter", "4 hosts are rejected only by OwnFilter"),
        (
            sets((4, CLAIM, Reason("no room", 4))),
            "claims",
            CLAIM.text,
            "4 hosts lack only a claim that Placement grants: no room",
        ),
        (
            failed(f"No valid host was found. {TOO_LATE}"),
            "late",
            "",
            "hosts were chosen, but its caller has given up by now",
        ),
        (
            failed("No valid host was found. No such host - host: h1 node: None ", found=CandidateOrigin()),
            "request",
            "No such host - host: h1 node: None",
            "No such host - host: h1 node: None",
        ),
        (
            failed("Scheduling failed: no such tenant", "RequestFilterFailed", found=CandidateOrigin()),
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


@pytest.mark.parametrize(
    ("decision", "part"),
    [
        (sets((3, VCPU, Reason("", 3, "max_unit", 1))), "at most 1 VCPU, or hosts with a larger max_unit"),
        (sets((3, VCPU, Reason("", 3, "free", 0))), "raise the allocation ratio of VCPU"),
        (sets((3, VCPU, Reason("", 3, "capacity", 1))), "reserve less of VCPU"),
        (sets((3, VCPU, Reason("", 3, "step_size", 4))), "a multiple of 4 VCPU"),
        (sets((3, VCPU, Reason("", 3, "absent"))), "let hosts provide it"),
        (sets((3, VCPU), instances=3, placed=2, number=3), "Request at most 2 instances at once"),
        (
            sets((3, GROUP), instances=3, placed=2, number=3),
            "Request at most 2 instances at once. For more: free or add what the group requests",
        ),
        (sets((3, ANTI_AFFINITY), instances=3, placed=2, number=3), "For more: add hosts, or use a soft"),
        (sets((2, SERVICE, Reason(STALE, 2))), "delete the trait COMPUTE_STATUS_DISABLED"),
        (sets((2, SERVICE, Reason("maintenance", 1), Reason(STALE, 1))), "Enable the compute services"),
        (sets((3, AFFINITY), (1, (VCPU, TRAIT))), "Free the host of the group"),
        (sets((3, AFFINITY), (1, (VCPU, SERVICE))), "Return the host of the group to service"),
        (sets((3, AFFINITY), (1, (VCPU, DOWN))), "Return the host of the group to service"),
        (sets((1, VCPU), (5, AFFINITY)), "more hosts do not help"),
        (sets((5, AFFINITY)), "more hosts do not help"),
        (sets((5, ANTI_AFFINITY)), "Add hosts, or use a soft policy"),
        (sets((1, IGNORED), kind="evacuation"), "only hosts that the instance is to leave would suit"),
        (sets((1, IGNORED)), "ignore fewer hosts"),
        (sets((1, ZONE)), "Choose another zone"),
        (sets((1, ZONE), kind="move"), "Add or free hosts in this zone"),
        (sets((1, GROUP)), "correct the group in the flavor"),
    ],
)  # fmt: skip
def test_the_remedy_is_one_for_this_case(decision, part):
    assert part in cause_of(decision).remedy


def test_a_ratio_is_no_remedy_for_max_unit():
    remedy = cause_of(sets((3, VCPU, Reason("", 3, "max_unit", 1)))).remedy
    assert "raise" not in remedy.replace("do not raise", "")


def test_each_kind_of_constraint_and_each_filter_has_one_cause():
    filters = [name for code in CauseCode for name in code.filters]
    assert {kind.cause for kind in ConstraintKind} <= set(CauseCode)
    assert len(set(filters)) == len(filters)


def test_each_filter_of_nova_that_rejects_hosts_has_a_cause_of_its_own():
    codes = {cls.__name__: code_of_filter(cls.__name__, "") for cls in builtin.ALL}
    assert {name for name, code in codes.items() if code == "filter"} == {"AllHostsFilter", "RetryFilter"}
