from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.numa.search import next_arrangement


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))))
def test_all_arrangements_are_visited_in_order(shape):
    n, k = shape
    arrangement, seen = list(range(k)), []
    changed = 0
    while changed is not None:
        seen.append(tuple(arrangement))
        changed = next_arrangement(arrangement, k - 1, n)
    assert seen == list(permutations(range(n), k))


@given(st.integers(1, 5).flatmap(lambda n: st.tuples(st.just(n), st.integers(1, n))), st.data())
def test_arrangements_with_the_same_beginning_are_left_out(shape, data):
    n, k = shape
    everything = list(permutations(range(n), k))
    at = data.draw(st.integers(0, len(everything) - 1))
    pivot = data.draw(st.integers(0, k - 1))
    arrangement = list(everything[at])
    changed = next_arrangement(arrangement, pivot, n)
    later = [p for p in everything[at:] if p[: pivot + 1] != everything[at][: pivot + 1]]
    assert (changed is None) == (not later)
    if later:
        assert tuple(arrangement) == later[0]
        assert later[0][:changed] == everything[at][:changed]
        assert later[0][changed] != everything[at][changed]
