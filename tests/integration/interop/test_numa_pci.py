"""A real nova release and Berth judge the same NUMA and PCI cases, and come to the same end.

A few hundred cases are judged; BERTH_INTEROP_CASES asks for more, BERTH_INTEROP_SEED for others.
"""

import json
import os
import pathlib

import pytest

from tests.integration.deployed import run_json
from tests.integration.interop import numa_pci_berth, numa_pci_cases

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

CALLED = pathlib.Path(__file__).with_name("numa_pci_caller.py")
COUNT = int(os.environ.get("BERTH_INTEROP_CASES", "600"))
SEED = os.environ.get("BERTH_INTEROP_SEED", "berth")
SHOWN = 5

# Seconds for nova; thousands of cases take minutes.
TIMEOUT = 500


@pytest.fixture(scope="module")
def cases():
    return [numa_pci_cases.make(SEED, number) for number in range(COUNT)]


@pytest.fixture(scope="module")
def recorded(cases, nova_python, nova_environment):
    """What nova makes of each case."""
    return run_json([nova_python, CALLED], input=json.dumps(cases), env=nova_environment, timeout=TIMEOUT)


@pytest.mark.parametrize("op", ["fit", "boot", "support"])
def test_the_same_end(cases, recorded, op):
    differing = []
    for case, wanted in zip(cases, recorded, strict=True):
        if case["op"] == op:
            expected, actual = comparable(case, wanted, numa_pci_berth.answer(case))
            if expected != actual:
                differing.append((case["id"], expected, actual))
    assert not differing, f"{len(differing)} of {COUNT} differ, among them {differing[:SHOWN]}"


def test_the_cases_are_worth_it(recorded):
    """Neither all of them fit nor none, and most requests for several instances get a second one."""
    for verdict in ("fits", "supported"):
        answers = [one[verdict] for one in recorded if verdict in one]
        assert 0.15 < sum(answers) / len(answers) < 0.85
    steps = [len(one["steps"]) for one in recorded if "steps" in one]
    assert sum(number > 1 for number in steps) > len(steps) / 8


# ---- what must be equal


def comparable(case, nova, berth):
    """Both answers without what is nova's accident, or no part of the contract."""
    nova, berth = (spelled(one) for one in (nova, berth))
    if case["op"] == "boot":
        return comparable_steps(case, nova, berth)
    if (
        "error" in nova
    ):  # nova gives up on the whole call, Berth on the cell without siblings, or on the pools
        return {"supported": False}, {"supported": berth.get("supported", False)}
    if "usage_error" in nova:
        nova["usage_error"] = "CPUPinningInvalid"
        if charged_without_pages(case):
            for one in nova, berth:
                one.pop("usage_error", None), one.pop("usage_after", None)
    berth.pop("core_use", None)
    return by_core(case["host"], nova), by_core(case["host"], berth)


def comparable_steps(case, nova, berth):
    nova_steps, berth_steps = nova["steps"], berth["steps"]
    if "error" in nova:
        berth_steps = berth_steps[: len(nova_steps)]
    shown = []
    for steps in nova_steps, berth_steps:
        hosts = [case["hosts"][step["passing"][0]] if step["passing"] else None for step in steps]
        shown.append([by_core(host, step) for host, step in zip(hosts, steps, strict=True)])
    return tuple(shown)


def spelled(answer):
    """As JSON has it."""
    return json.loads(json.dumps(answer))


def charged_without_pages(case):
    """Where nova fails to charge a guest to a cell without pages, Berth does (spec: numa-and-pci 3.12)."""
    cells = case["host"]["numa_topology"]["nova_object.data"]["cells"]
    return not all(cell["nova_object.data"]["mempages"] for cell in cells)


def by_core(host, answer):
    """Which thread of a core is taken is nobody's business: each stands for its core."""
    topology = host and host["numa_topology"]
    if not topology:
        return answer
    stored = [cell["nova_object.data"]["siblings"] for cell in topology["nova_object.data"]["cells"]]
    core = {cpu: core[0] for cores in stored for core in cores for cpu in core}
    for cell in answer.get("cells") or ():
        cell["pins"] = {vcpu: core.get(cpu, cpu) for vcpu, cpu in cell["pins"].items()}
        cell["reserved"] = [core.get(cpu, cpu) for cpu in cell["reserved"]]
    for cell in (answer.get("usage") or []) + (answer.get("usage_after") or []):
        cell["pinned_cpus"] = sorted(core.get(cpu, cpu) for cpu in cell["pinned_cpus"])
    return answer
