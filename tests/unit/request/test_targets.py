import pytest

from scheduler import errors
from scheduler.request import targets
from scheduler.request.targets import NamedTarget
from tests.unit.request.builders import make_spec


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        (NamedTarget("h", None), "No such host - host: h node: None "),
        (NamedTarget(None, "n"), "No such host - host: None node: n "),
        (NamedTarget("h", "n", "cell"), "No such host - host: h node: n "),
    ],
)
def test_a_target_that_does_not_exist_is_refused(wanted, reason):
    with pytest.raises(errors.NoValidHost) as caught:
        targets.apply_lookup(make_spec(), wanted, [])
    assert caught.value.reason == reason
