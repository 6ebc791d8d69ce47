"""The worked cases of the documentation are what berth-explain says of such builds."""

import pytest

from tools.worked_cases import cases
from tools.worked_cases.__main__ import DIRECTORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def found(tmp_path_factory, rabbit):
    """What is told of each case by a real scheduler now."""
    return cases.run(tmp_path_factory.mktemp("cases"), rabbit.vhost())


@pytest.mark.parametrize("case", cases.CASES, ids=lambda case: case.name)
def test_the_documentation_has_what_is_told_now(found, case):
    """If not, and it is meant to be so: ``tools/worked-cases`` writes it anew."""
    documented = (DIRECTORY / f"{case.name}.txt").read_text()
    assert cases.normalised(found[case.name]) == cases.normalised(documented)


def test_nothing_else_is_documented():
    assert {path.stem for path in DIRECTORY.iterdir()} == {case.name for case in cases.CASES}
    page = (DIRECTORY.parent / "why-did-my-build-fail.rst").read_text()
    assert [case.name for case in cases.CASES if f"cases/{case.name}.txt" not in page] == []
