import gc

import pytest

from scheduler.hosts.rows import Interner, Parsed


def test_equal_texts_give_the_same_value():
    interner = Interner(Parsed)
    assert interner("ab") is interner(str(b"ab", "ascii"))
    assert interner("c").value == "c"


def test_a_value_is_forgotten_with_its_last_user():
    interner = Interner(Parsed)
    kept, dropped = interner("kept"), interner("dropped")
    del dropped
    gc.collect()
    assert len(interner) == 1
    assert interner("kept") is kept


def test_errors_are_not_remembered():
    interner = Interner(int)
    for _ in range(2):
        with pytest.raises(ValueError):
            interner("x")
    assert len(interner) == 0


def test_no_value():
    interner = Interner(lambda text: None)
    assert interner("") is None
    assert len(interner) == 0
