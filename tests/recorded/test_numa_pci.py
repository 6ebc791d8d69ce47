"""Nova and Berth judge the same NUMA and PCI cases, and come to the same end."""

import json

import pytest

from tests.integration.interop import numa_pci_berth

KIND = "numa_pci"
SHOWN = 5


@pytest.mark.parametrize("op", ["fit", "boot", "support"])
def test_the_same_end(answered, op):
    differing = []
    for case, nova in answered:
        if case["op"] == op:
            expected, actual = comparable(case, nova, numa_pci_berth.answer(case))
            if expected != actual:
                differing.append((case["id"], expected, actual))
    assert not differing, f"{len(differing)} of {len(answered)} differ, among them {differing[:SHOWN]}"


def test_the_cases_are_worth_it(answered):
    """Neither all of them fit nor none, and most requests for several instances get a second one."""
    novas = [nova for _, nova in answered]
    for verdict in ("fits", "supported"):
        answers = [one[verdict] for one in novas if verdict in one]
        assert 0.15 < sum(answers) / len(answers) < 0.85
    steps = [len(one["steps"]) for one in novas if "steps" in one]
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
