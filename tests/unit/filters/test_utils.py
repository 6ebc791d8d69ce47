"""The helpers that operators' filters import (spec: filters-and-weighers 1.12)."""

import pytest

from scheduler.filters import utils
from tests.builders import make_host, make_view
from tests.unit.filters.asking import host_in


def state(host):
    return make_view([host]).host(0)


def test_values_of_a_key_are_not_split():
    host = state(host_in({"k": "a,b"}, {"k": "a"}, {"x": "y"}))
    assert utils.aggregate_values_from_key(host, "k") == {"a,b", "a"}
    assert utils.aggregate_values_from_key(host, "z") == set()


@pytest.mark.parametrize(
    ("key", "metadata"),
    [
        (None, {"k": {"a", "b", "c"}, "x": {"y"}, "e": {""}}),
        ("k", {"k": {"a", "b", "c"}, "e": {""}}),
        ("z", {}),
    ],
)
def test_metadata_are_split_and_united(key, metadata):
    host = state(host_in({"k": "a, b", "e": ""}, {"k": "c"}, {"x": "y"}))
    assert utils.aggregate_metadata_get_by_host(host, key) == metadata


@pytest.mark.parametrize(
    ("values", "options", "number"),
    [
        (set(), {}, None),
        (set(), {"default": 5}, 5),
        ({"10", "9"}, {}, 9),
        ({"10", "9"}, {"based_on": max}, 10),
        ({"1.5"}, {"cast_to": float}, 1.5),
    ],
)
def test_numbers(values, options, number):
    assert utils.validate_num_values(values, **options) == number


def test_numbers_that_are_none():
    with pytest.raises(ValueError, match="invalid literal"):
        utils.validate_num_values({"1", "x"})


@pytest.mark.parametrize(("uuids", "overlap"), [(["A"], True), ("A", True), (["B"], False), ([], False)])
def test_instances_overlap(uuids, overlap):
    assert utils.instance_uuids_overlap(state(make_host("h").holding("A")), uuids) is overlap
