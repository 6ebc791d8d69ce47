from hypothesis import given
from hypothesis import strategies as st
import numpy as np

from scheduler.filters.columns import of_numbers, together
from scheduler.hosts.encoded_column import EncodedColumn

SMALL = st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=30)


@given(SMALL)
def test_columns_together(rows):
    columns = [EncodedColumn.of_texts(column) for column in zip(*rows, strict=True)]
    combined = together(*columns)
    assert [combined[index] for index in range(len(rows))] == rows
    assert len(combined.values) == len(set(rows))


def test_many_columns_of_many_values_do_not_collide():
    wide = [EncodedColumn(np.arange(10000), tuple(range(10000))) for _ in range(6)]
    combined = together(*wide)
    assert combined[9999] == (9999,) * 6
    assert len(combined.values) == 10000


@given(st.lists(st.integers(-(2**60), 2**60), min_size=1))
def test_numbers_are_plain_values(numbers):
    column = of_numbers(np.array(numbers))
    assert [column[index] for index in range(len(numbers))] == numbers
    assert all(type(value) is int for value in column.values)
