import datetime as dt
import json
import uuid

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import objects
from scheduler.objects import base, fields
from tests.support.wire_examples import as_json, envelope


@base.register
class Sample(base.WireObject):
    """One field of each type."""

    VERSION = "1.0"
    fields = {
        "integer": fields.integer(),
        "number": fields.number(),
        "text": fields.text(),
        "secret": fields.secret(),
        "uuid": fields.uuid(),
        "boolean": fields.boolean(),
        "flexible": fields.flexible_boolean(),
        "moment": fields.moment(),
        "address": fields.address(),
        "word": fields.word("one two"),
        "spelt": fields.word("kvm xen", {"xapi": "xen"}),
        "predicate": fields.version_predicate(),
        "raw": fields.raw(),
        "items": fields.list_of(fields.integer()),
        "gaps": fields.list_of(fields.text(nullable=True)),
        "nested": fields.list_of(fields.list_of(fields.text())),
        "set": fields.set_of(fields.integer()),
        "dict": fields.dict_of(fields.text()),
        "objects": fields.list_of(fields.nested("Sample")),
        "nullable": fields.integer(nullable=True),
        "defaulting": fields.integer(default=3),
        "both": fields.integer(nullable=True, default=4),
    }


def read(**data):
    return objects.hydrate(envelope("Sample", data))


NOON = dt.datetime(2026, 11, 21, 12, 0, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("field", "wire", "value"),
    [
        ("integer", 5, 5),
        ("integer", "5", 5),
        ("integer", 5.9, 5),
        ("integer", True, 1),
        ("number", "1.5", 1.5),
        ("number", 2, 2.0),
        ("text", "x", "x"),
        ("text", 5, "5"),
        ("text", 1.5, "1.5"),
        ("text", "", ""),
        ("uuid", "not validated", "not validated"),
        ("boolean", 0, False),
        ("boolean", "false", True),
        ("boolean", [], False),
        ("flexible", "yes", True),
        ("flexible", "1", True),
        ("flexible", "on", True),
        ("flexible", "whatever", False),
        ("flexible", 1, True),
        ("flexible", False, False),
        ("moment", "2026-11-21T12:00:01Z", NOON),
        ("moment", "2026-11-21T14:00:01+02:00", NOON),
        ("moment", "2026-11-21T12:00:01", NOON),
        ("moment", "2026-11-21T12:00:01.5Z", NOON.replace(microsecond=500_000)),
        ("word", "one", "one"),
        ("word", "invented-later", "invented-later"),
        ("word", "ONE", "ONE"),
        ("spelt", "KVM", "kvm"),
        ("spelt", "XAPI", "xen"),
        ("spelt", "New", "new"),
        ("predicate", ">=2.6,<4", ">=2.6,<4"),
        ("raw", {"a": [None]}, {"a": [None]}),
        ("items", [1, "2"], [1, 2]),
        ("items", [], []),
        ("gaps", ["a", None], ["a", None]),
        ("nested", [["a"], []], [["a"], []]),
        ("set", [1, "1", 2], {1, 2}),
        ("dict", {"a": 1}, {"a": "1"}),
        ("nullable", None, None),
        ("defaulting", None, 3),
        ("both", None, None),
    ],
)
def test_values_are_coerced_to_the_type_of_the_field(field, wire, value):
    found = getattr(read(**{field: wire}), field)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("field", "wire"),
    [
        *(
            (name, None)
            for name in ("integer", "text", "uuid", "boolean", "moment", "word", "items", "set", "dict")
        ),
        ("integer", "x"),
        ("integer", ""),
        ("integer", []),
        ("integer", float("inf")),
        ("integer", "9" * 5000),
        ("number", "x"),
        ("text", []),
        ("text", {}),
        ("uuid", ["x"]),
        ("moment", "yesterday"),
        ("moment", 5),
        ("address", "300.1.1.1"),
        ("word", ["one"]),
        ("predicate", "latest"),
        ("predicate", 4),
        ("items", "12"),
        ("items", {"a": 1}),
        ("items", 1),
        ("items", [None]),
        ("items", [[1]]),
        ("gaps", [{}]),
        ("set", "12"),
        ("set", ["x"]),
        ("dict", []),
        ("dict", {"a": None}),
        ("dict", {"a": {}}),
        ("objects", [{}]),
        ("objects", [5]),
        ("objects", {}),
    ],
)
def test_values_that_do_not_suit_the_field_are_refused(field, wire):
    with pytest.raises((objects.InvalidField, objects.UnsupportedObjectError)) as caught:
        read(**{field: wire})
    assert field in str(caught.value) or isinstance(caught.value, objects.UnsupportedObjectError)


def test_address():
    assert as_json(read(address="192.0.2.1"))[base.DATA] == {"address": "192.0.2.1"}


def test_times_are_written_in_seconds():
    assert as_json(read(moment="2026-11-21T14:00:01.999+02:00"))[base.DATA] == {
        "moment": "2026-11-21T12:00:01Z"
    }


def test_uuid_object_may_be_assigned():
    value = uuid.uuid4()
    assert Sample(uuid=value).uuid == str(value)


def test_secrets_stay_out_of_repr():
    cell = objects.CellMapping(transport_url="rabbit://u:PASS@h", database_connection="mysql://u:PASS@h")
    assert "PASS" not in repr(cell)


words = st.text(max_size=10)
ints = st.integers(min_value=-(2**63), max_value=2**63)
VALUES = {
    "integer": ints,
    "number": st.floats(allow_nan=False),
    "text": words,
    "secret": words,
    "uuid": words,
    "boolean": st.booleans(),
    "flexible": st.booleans(),
    "moment": st.datetimes(min_value=dt.datetime(1000, 1, 1), timezones=st.just(dt.UTC)).map(
        lambda when: when.strftime("%Y-%m-%dT%H:%M:%SZ")
    ),
    "address": st.ip_addresses(v=4).map(str),
    "word": words,
    "raw": st.lists(words),
    "items": st.lists(ints),
    "gaps": st.lists(st.none() | words),
    "nested": st.lists(st.lists(words)),
    "set": st.sets(ints).map(sorted),
    "dict": st.dictionaries(words, words),
    "nullable": st.none() | ints,
    "defaulting": ints,
    "both": st.none() | ints,
}


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_round_trip(data):
    """What is read from well-formed data is written as it came, unset fields stay unset."""
    written = json.loads(json.dumps(read(**data).obj_to_primitive()))[base.DATA]
    if "set" in written:
        written["set"].sort()
    assert written == data
