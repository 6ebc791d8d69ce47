"""Nova's answers to random cases, as lines of JSON, so that Berth is compared with nova where nova is not installed.

``BERTH_NOVA_PYTHON=... python -m tests.recorded.answers`` asks nova again and writes all files.
"""

from collections.abc import Callable
import json
import os
from pathlib import Path
from typing import NamedTuple
import zlib

from tests.integration.interop import flavor_cases, numa_pci_cases, query_cases, rules_cases
from tests.integration.interop.nova_process import NovaProcess

#: Of the cases that are recorded; a campaign has another one.
SEED = 0


class Kind(NamedTuple):
    """A kind of cases.

    Attributes:
        program: Of ``tests/integration/interop``; gives nova's answer to each of a list of cases.
        make: From a seed to the cases.
    """

    program: str
    make: Callable[[int], list]


KINDS = {
    "rules": Kind("rules_caller", lambda seed: [rules_cases.make(seed + number) for number in range(200)]),
    "flavors": Kind(
        "flavor_caller", lambda seed: [flavor_cases.make(f"berth{seed}", number) for number in range(1000)]
    ),
    "queries": Kind("query_caller", lambda seed: query_cases.cases(f"berth{seed}", 400)),
    "numa_pci": Kind(
        "numa_pci_caller",
        lambda seed: [*kept(), *(numa_pci_cases.make(f"berth{seed}", number) for number in range(600))],
    ),
}


def kept():
    """Cases of NUMA and PCI fitting that are not made by chance, each with its intent."""
    return [json.loads(line) for line in _file("numa_pci_kept").read_text().splitlines()]


def asked(name, nova, seed=SEED):
    """Cases, and what nova answers to each now."""
    cases = KINDS[name].make(seed)
    return list(zip(cases, nova.run(KINDS[name].program, given=cases), strict=True))


def recorded(name):
    """Cases, and what nova has answered to each."""
    cases = KINDS[name].make(SEED)
    lines = [json.loads(line) for line in _file(name).read_text().splitlines()]
    stale = [
        number
        for number, (case, line) in enumerate(zip(cases, lines, strict=True))
        if _sum(case) != line["case"]
    ]
    assert stale == [], "these cases are others since nova answered them; record its answers again"
    return [(case, line["nova"]) for case, line in zip(cases, lines, strict=True)]


def record(name, nova):
    """Write what nova answers now."""
    lines = [{"case": _sum(case), "nova": answer} for case, answer in asked(name, nova)]
    _file(name).write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def _file(name):
    return Path(__file__).with_name(f"{name}.jsonl")


def _sum(case):
    return zlib.crc32(json.dumps(case, sort_keys=True).encode())


if __name__ == "__main__":
    with NovaProcess(os.environ["BERTH_NOVA_PYTHON"]) as process:
        for kind in KINDS:
            record(kind, process)
