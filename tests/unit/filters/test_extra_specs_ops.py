"""Requirement operators (spec: filters-and-weighers 2.1); tests/recorded compares them with nova's."""

from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler.filters.extra_specs_ops import Requirement, match, op_methods


@pytest.mark.parametrize(
    ("value", "requirement", "holds"),
    [
        ("['aes', 'mmx', 'aux']", "<all-in> aes mmx", True),
        ("['aes', 'mmx', 'aux']", "<all-in> txt aes", False),
        ("['aesni']", "<all-in> aes", True),
        ("a", "<all-in>", False),
    ],
)
def test_all_words_must_be_in_the_value(value, requirement, holds):
    assert match(value, requirement) is holds


def test_an_alternative_without_values_is_met_by_none_where_nova_raises():
    """spec: filters-and-weighers 6 row 13"""
    assert match("a", "<or>") is False


@pytest.mark.parametrize(("value", "requirement"), [("abc", ">= 5"), ("5", ">= abc")])
def test_rows_23_and_24_what_is_no_number_raises(value, requirement):
    with pytest.raises(ValueError, match="could not convert"):
        match(value, requirement)


@pytest.mark.parametrize("operator", op_methods)
def test_no_value_satisfies_no_operator(operator):
    assert not match(None, f"{operator} a")


def test_leading_and_repeated_blanks_do_not_matter():
    assert match("5", "   >=    5  rest")


@given(
    numbers=st.lists(st.integers(-(2**53), 2**53), min_size=1),
    operator=st.sampled_from(["=", "==", "!=", ">=", "<=", "s<", "<in>", "<or>", "x"]),
    operand=st.one_of(
        st.integers(-(2**53), 2**53).map(str), st.sampled_from(["", "nan", "inf", " 5 ", "1e3"])
    ),
)
def test_many_numbers_at_once_as_one_by_one(numbers, operator, operand):
    requirement = Requirement(f"{operator} {operand}")
    held = requirement.hold(np.array(numbers))
    if held is not None:
        assert held.tolist() == [requirement.holds(str(number)) for number in numbers]
