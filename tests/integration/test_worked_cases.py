"""The worked cases of the documentation are what berth-explain says of such builds."""

import pytest

from tools.worked_cases import cases
from tools.worked_cases.command import DIRECTORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def found(tmp_path_factory, rabbit):
    """What is told of each case by a real scheduler now."""
    return cases.run(tmp_path_factory.mktemp("cases"), rabbit)


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_the_documentation_has_what_is_told_now(found, case):
    """If not, and it is meant to be so: ``tools/berth worked-cases`` writes it again."""
    documented = (DIRECTORY / f"{case.name}.txt").read_text()
    assert cases.normalised(found[case.name]) == cases.normalised(documented)


def test_nothing_else_is_documented():
    assert {path.stem for path in DIRECTORY.iterdir()} == {case.name for case in cases.CASES}
    pages = {case.page: (DIRECTORY.parent / case.page).read_text() for case in cases.CASES}
    assert [case.name for case in cases.CASES if f"cases/{case.name}.txt" not in pages[case.page]] == []


@pytest.mark.parametrize(
    ("host", "answers"),
    [
        (
            "cmp-00000",
            [
                "  problem: lacks an enabled compute service: service disabled (kernel update)\n",
                "\nRemedy: Enable the compute services, or wait until their maintenance ends.\n",
                "1 host lacks required trait CUSTOM_GPU (flavor) and an enabled compute service\n",
            ],
        ),
        (
            "cmp-00001",
            [
                "(flavor m1.medium, zone az1), as of now: 1 host lacks only 4096 MEMORY_MB: at most ",
                "\nRemedy: Free or add capacity, raise the allocation ratio of MEMORY_MB, or use a flavor with at ",
            ],
        ),
        (
            "cmp-00002",
            [
                "(flavor m1.vgpu), as of now: 1 host lacks only required trait CUSTOM_GPU (flavor)\n",
                "\nRemedy: Correct the trait in the flavor or image, or set it on the hosts that have it.\n",
            ],
        ),
    ],
    ids=["disabled", "full", "without the trait"],
)
def test_a_host_that_is_never_chosen_is_explained(found, host, answers):
    told = found["never-chosen"].partition(f"$ berth-explain host {host}\n")[2].partition("\n$ ")[0]
    for answer in answers:
        assert answer in told
