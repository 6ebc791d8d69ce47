from datetime import datetime
import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.stream import records
from scheduler.stream.records import Entry, Kind, Record, decode, encode
from tests.builders import uuid_of

ENTRY = Entry(
    instance=uuid_of("i1"),
    node=uuid_of("h1"),
    columns={"free_ram_mb": -512, "vcpus_used": 1},
    resources={"MEMORY_MB": 512, "VCPU": 1},
    updated=datetime(2026, 1, 1, 12),
)


def record(kind=Kind.CLAIMED, **changes):
    fields = {"version": 1, "sender": "s1", "counter": 7, "time": 1e9, "entries": (ENTRY,)} | changes
    return Record(kind=kind, **fields)


def body(*records_):
    ((found, _),) = encode(records_)
    return found


def plain(**changes):
    return json.loads(body(record()))[0] | changes


@pytest.mark.parametrize(
    "one",
    [
        *(record(kind) for kind in (Kind.INTENT, Kind.CLAIMED, Kind.RELEASED, Kind.GONE)),
        record(Kind.BEAT, entries=(), host="c1"),
        record(Kind.BYE, entries=()),
    ],
    ids=lambda one: one.kind,
)
def test_a_record_is_read_as_it_was_written(one):
    found = decode(body(one))
    assert (found.records, found.faults) == ([one], [])


def test_a_claim_takes_less_than_400_bytes():
    assert len(body(record())) < 400


def test_many_records_are_written_as_few_messages_none_too_large():
    many = [record(counter=number) for number in range(1000)]
    bodies = list(encode(many))
    assert all(len(one) <= records.LARGEST_MESSAGE for one, _ in bodies)
    assert 3 <= len(bodies) <= 8
    assert sum(accounted for _, accounted in bodies) == 1000
    assert [one for found, _ in bodies for one in decode(found).records] == many


def test_a_record_larger_than_a_message_is_left_out_and_accounted_for():
    entries = tuple(Entry(instance=uuid_of(str(n)), node=uuid_of("h")) for n in range(900))
    bodies = list(encode([record(counter=1), record(counter=2, entries=entries), record(counter=3)]))
    assert [one.counter for found, _ in bodies for one in decode(found).records] == [1, 3]
    assert sum(accounted for _, accounted in bodies) == 3


@pytest.mark.parametrize(
    "changes",
    [{"kind": "prophecy"}, {"version": 2}, {"version": 2, "kind": "claimed", "entries": "another form"}],
    ids=["unknown kind", "later version", "later form"],
)
def test_what_another_release_writes_is_ignored(changes):
    found = decode(json.dumps([plain(**changes), plain()]).encode())
    assert (found.records, found.faults) == ([record()], [])


def test_fields_that_are_not_known_are_ignored():
    later = plain(colour="red") | {"entries": [plain()["entries"][0] | {"colour": "red"}]}
    assert decode(json.dumps([later]).encode()).records == [record()]


@pytest.mark.parametrize(
    "broken",
    [
        "text",
        None,
        {},
        {"version": "1", "kind": "claimed"},
        {"version": 1, "kind": ["claimed"]},
        plain(counter=-1),
        plain(counter="many"),
        plain(sender=""),
        plain(sender="s" * 65),
        plain(time="noon"),
        plain(time=1e300),
        plain(entries=[{}]),
        plain(entries=[{"instance": "i" * 65}]),
        plain(entries=[{"instance": "i", "node": 7}]),
        plain(entries=[{"instance": "i", "columns": {"vcpus_used": 1 << 41}}]),
        plain(entries=[{"instance": "i", "columns": {"vcpus_used": -(1 << 41)}}]),
        plain(entries=[{"instance": "i", "columns": {"vcpus_used": 1.5}}]),
        plain(entries=[{"instance": "i", "resources": {"C" * 256: 1}}]),
        plain(entries=[{"instance": "i", "resources": {f"C{n}": 1 for n in range(65)}}]),
        plain(entries=[{"instance": "i", "updated": "soon"}]),
        plain(entries=[{"instance": "i"}] * 1001),
        plain(host="h" * 256),
    ],
    ids=str,
)
def test_a_record_that_cannot_be_read_costs_only_itself(broken):
    found = decode(json.dumps([broken, plain()]).encode())
    assert (found.records, len(found.faults)) == ([record()], 1)


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"\xff\xfe",
        b"{}",
        b"[" * 30_000,
        b"[" + b" " * records.LARGEST_MESSAGE + b"]",
        json.dumps([1] * 1001).encode(),
        b'[{"version":1,"kind":"claimed","x":' + b"[" * 20_000 + b"]" * 20_000 + b"}]",
    ],
    ids=["empty", "no text", "no list", "unended lists", "too large", "too many", "nested deeply"],
)
def test_a_message_that_cannot_be_read_is_one_fault(hostile):
    found = decode(hostile)
    assert (found.records, len(found.faults)) == ([], 1)


@given(st.binary(max_size=300))
def test_no_bytes_raise_an_error(hostile):
    decode(hostile)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["version", "kind", "sender", "counter", "time", "entries"]), inner
            )
        ),
        max_leaves=12,
    )
)
def test_no_json_raises_an_error(hostile):
    decode(json.dumps([hostile]).encode())


def test_amounts_are_cut_to_what_a_record_may_have():
    assert records.without_zeros({"a": 0, "b": -5, "c": 1 << 50}) == {"b": -5, "c": records.LARGEST_AMOUNT}
