"""Which scheduler hints have no effect."""

import pytest

from scheduler.operators.snapshot.requests import hint_notes
from tests.unit.filters.asking import make_spec

RULES = {"SameHostFilter", "ServerGroupAffinityFilter"}


@pytest.mark.parametrize(
    ("hint", "notes"),
    [
        ("same_host", []),
        ("group", []),
        ("different_host", ["Hint different_host has no effect: DifferentHostFilter is not enabled"]),
        (
            "samehost",
            ["Hint samehost has no effect: no filter of nova reads it; did you mean same_host?"],
        ),
        ("groups", ["Hint groups has no effect: no filter of nova reads it; did you mean group?"]),
        ("rack", ["Hint rack has no effect: no filter of nova reads it"]),
    ],
)
def test_hints_without_effect_are_named(hint, notes):
    assert list(hint_notes(make_spec(hints={hint: ["x"]}), RULES)) == notes


@pytest.mark.parametrize(("policy", "missing"), [("affinity", ""), ("anti-affinity", "AntiAffinityFilter")])
def test_a_policy_that_conductors_refuse_is_named(policy, missing):
    notes = list(hint_notes(make_spec(group={"policy": policy}), RULES))
    assert [missing in note for note in notes] == [True] * bool(missing)


def test_a_request_without_hints_has_no_notes():
    assert list(hint_notes(make_spec(), RULES)) == []
