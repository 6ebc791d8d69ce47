import pytest

from scheduler.filters.causes import group

UUIDS = [f"{number}0000000-0000-4000-8000-00000000000a" for number in range(2)]


@pytest.mark.parametrize(
    ("reasons", "line"),
    [
        (["rejected"] * 2, "rejected (h0, h1)"),
        (["requested 512 MB, usable 9 MB", "requested 512 MB, usable 80.5 MB"], "requested 512 MB, usable 9 to 80.5 MB (h0, h1)"),
        (["free -3 of 4", "free 1 of 4"], "free -3 to 1 of 4 (h0, h1)"),
        ([f"holds instance {uuid}" for uuid in UUIDS], f"holds instance {UUIDS[0]} and others (h0, h1)"),
        (["address 10.0.0.1", "address 10.0.0.2"], "address 10.0.0.1 and others (h0, h1)"),
        (["last seen 7 s ago"] * 5, "last seen 7 s ago (5 hosts, such as h0, h1, h2)"),
    ],
    ids=["no value", "one value differs", "negative", "uuids", "addresses", "many hosts"],
)  # fmt: skip
def test_reasons_that_differ_in_values_alone_are_one_cause(reasons, line):
    assert list(map(str, group((f"h{number}", reason) for number, reason in enumerate(reasons)))) == [line]


def test_names_with_digits_are_no_values():
    found = group([("a", "not in rack r1"), ("b", "not in rack r2"), ("c", "not in rack r2")])
    assert list(map(str, found)) == ["not in rack r2 (b, c)", "not in rack r1 (a)"]
