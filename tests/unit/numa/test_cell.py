from dataclasses import replace

import pytest

from scheduler.numa.cell import Pinning, pin_vcpus
from tests.unit.numa.shapes import host_cell, pinned

SMT = host_cell(0, cpus=6, threads=2)
LEGACY = replace(SMT, cpuset=SMT.pcpuset)
HALF = replace(SMT, pinned=frozenset({0}))  # free: 1 | 2 3 | 4 5


@pytest.mark.parametrize(
    ("cell", "vcpus", "policy", "overhead", "cpus", "reserved"),
    [
        (SMT, 2, None, 0, [0, 1], None),
        (SMT, 3, "require", 0, [0, 1, 2], None),
        (HALF, 2, None, 0, [2, 3], None),
        (HALF, 5, None, 0, [1, 2, 3, 4, 5], None),
        (HALF, 5, "require", 0, None, None),
        (HALF, 1, None, 1, [2], {1}),
        (HALF, 5, None, 1, None, None),
        (SMT, 2, "isolate", 0, None, None),
        (LEGACY, 2, "isolate", 0, [0, 2], None),
        (LEGACY, 2, "isolate", 1, [0, 2], {4}),
        (LEGACY, 3, "isolate", 1, None, None),
        (LEGACY, 0, "isolate", 0, None, None),
        (host_cell(0), 2, "isolate", 0, [0, 1], None),
        (host_cell(0), 2, "require", 0, None, None),
        (host_cell(0), 0, None, 0, [], None),
        (host_cell(0), 0, None, 1, None, None),
        (SMT, 0, "require", 0, [], None),
        (host_cell(0, siblings=()), 1, None, 0, None, None),
        (host_cell(0, siblings=(frozenset({0}),)), 2, None, 0, None, None),
    ],
)
def test_pin(cell, vcpus, policy, overhead, cpus, reserved):
    found = pin_vcpus(cell, pinned(vcpus=vcpus, thread_policy=policy), overhead)
    expected = None if cpus is None else Pinning(dict(enumerate(cpus)), reserved and frozenset(reserved))
    assert found == expected
