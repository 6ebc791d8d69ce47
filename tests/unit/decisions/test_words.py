import pytest

from scheduler.decisions.document import Out
from scheduler.decisions.words import group

UUIDS = [f"{number}0000000-0000-4000-8000-00000000000a" for number in range(2)]


@pytest.mark.parametrize(
    ("reasons", "text"),
    [
        (["rejected"] * 2, "rejected"),
        (["requested 512 MB, usable 9 MB", "requested 512 MB, usable 80.5 MB"], "requested 512 MB, usable 9 to 80.5 MB"),
        (["free -3 of 4", "free 1 of 4"], "free -3 to 1 of 4"),
        ([f"holds instance {uuid}" for uuid in UUIDS], f"holds instance {UUIDS[0]} and others"),
        (["address 10.0.0.1", "address 10.0.0.2"], "address 10.0.0.1 and others"),
    ],
    ids=["no value", "one value differs", "negative", "uuids", "addresses"],
)  # fmt: skip
def test_reasons_that_differ_in_values_alone_are_one(reasons, text):
    pairs = ((f"h{number}", reason) for number, reason in enumerate(reasons))
    assert group(pairs) == [Out(text, 2, ["h0", "h1"])]


def test_names_with_digits_are_no_values_and_the_most_frequent_reason_is_first():
    found = group([("a", "not in rack r1"), *((host, "not in rack r2") for host in "bcdeb")], 3)
    assert found == [Out("not in rack r2", 5, ["b", "c", "d"]), Out("not in rack r1", 1, ["a"])]
