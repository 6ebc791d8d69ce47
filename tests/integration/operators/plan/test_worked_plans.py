"""The plans of the documentation are what berth-plan says of such a cloud."""

import pytest

from tools.worked_cases import plans

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What is said of each plan now."""
    return {case.name: text for case, text, _ in plans.run(tmp_path_factory.mktemp("plans"))}


@pytest.mark.parametrize("case", plans.CASES, ids=lambda case: case.name)
def test_the_documentation_has_what_is_said_now(found, case):
    """If not, and it is meant to be so: ``tools/berth worked-cases`` writes it again."""
    documented = (plans.DIRECTORY / f"{case.name}.txt").read_text()
    assert plans.normalised(found[case.name]) == plans.normalised(documented)


def test_nothing_else_is_documented():
    assert {path.stem for path in plans.DIRECTORY.glob("*.txt")} == {case.name for case in plans.CASES}
