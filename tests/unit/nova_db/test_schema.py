import pytest

from scheduler.nova_db.schema import chunks


@pytest.mark.parametrize(
    ("count", "size", "lengths"), [(0, 3, []), (1, 3, [1]), (3, 3, [3]), (7, 3, [3, 3, 1])]
)
def test_chunks(count, size, lengths):
    pieces = list(chunks(range(count), size))
    assert [len(piece) for piece in pieces] == lengths
    assert [item for piece in pieces for item in piece] == list(range(count))
