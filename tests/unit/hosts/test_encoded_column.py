from hypothesis import given
from hypothesis import strategies as st
import numpy as np
import pytest

from scheduler.hosts.encoded_column import MAX_UNUSED_VALUES, EncodedColumn

A, B, C = object(), object(), object()


def test_encoding_by_identity():
    column = EncodedColumn.of([A, B, A])
    assert list(column) == [A, B, A]
    assert column.values == (A, B)
    assert list(column.codes) == [0, 1, 0]


def test_equal_objects_are_told_apart_by_identity_and_equal_texts_are_not():
    first, second = [1], [1]
    assert len(EncodedColumn.of([first, second]).values) == 2
    assert EncodedColumn.of_texts(["a", None, str(b"a", "ascii")]).values == ("a", None)


def test_spread_asks_once_per_value_that_occurs():
    asked = []
    column = EncodedColumn.of_texts(["a", "b", "a", "c"]).take(np.array([0, 2, 1]))
    answers = column.spread(lambda value: asked.append(value) or value == "a")
    assert list(answers) == [True, True, False]
    assert asked == ["a", "b"]


def test_spread_of_nothing():
    assert list(EncodedColumn.of([]).spread(bool)) == []


def test_spread_of_numbers():
    assert list(EncodedColumn.of_texts(["a", "bcd", "a"]).spread(len, np.int64)) == [1, 3, 1]


def test_replaced_leaves_the_original():
    column = EncodedColumn.of([A, B])
    assert list(column.replaced(0, C)) == [C, B]
    assert list(column) == [A, B]


def test_patched_keeps_codes():
    column = EncodedColumn.of([A, B, A])
    patched = column.patched(np.array([0, 1]), [B, C])
    assert list(patched) == [B, C, A]
    assert [patched.values.index(value) for value in (A, B)] == [0, 1]
    assert list(column) == [A, B, A]


def test_patched_drops_values_that_no_host_has():
    column = EncodedColumn.of([A])
    for _ in range(10 * MAX_UNUSED_VALUES):
        column = column.patched(np.array([0]), [object()])
    assert len(column.values) <= MAX_UNUSED_VALUES + 2


@given(st.data())
def test_patched_is_the_same_as_made_anew(data):
    pool = [object() for _ in range(5)]
    items = data.draw(st.lists(st.sampled_from(pool), min_size=1))
    positions = data.draw(st.lists(st.integers(0, len(items) - 1), unique=True))
    news = data.draw(st.lists(st.sampled_from(pool), min_size=len(positions), max_size=len(positions)))
    patched = EncodedColumn.of(items).patched(np.array(positions, dtype=np.int64), news)
    for position, new in zip(positions, news, strict=True):
        items[position] = new
    assert list(patched) == items


def test_out_of_range():
    with pytest.raises(IndexError):
        EncodedColumn.of([A])[1]
