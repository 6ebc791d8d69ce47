import json

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler import errors, objects
from scheduler.rpc import serializer
from scheduler.rpc.context import RequestContext
from tests.support.wire_examples import NAMES, as_json, message, settled, spec

CALLER = serializer.ObjectSerializer()
SERVER = serializer.ObjectSerializer(serializer.LARGEST_ARGUMENT)


@pytest.mark.parametrize("name", [n for n in NAMES if "args" in message(n)])
def test_arguments_of_every_example(name):
    for argument in message(name)["args"].values():
        read = SERVER.deserialize_entity(None, argument)
        if "instance_info" not in name:
            assert settled(json.loads(json.dumps(CALLER.serialize_entity(None, read)))) == settled(argument)


@pytest.mark.parametrize("name", [n for n in NAMES if n.startswith("reply")])
def test_results_of_every_example(name):
    result = message(name)["result"]
    read = CALLER.deserialize_entity(None, result)
    assert settled(json.loads(json.dumps(CALLER.serialize_entity(None, read)))) == settled(result)


def test_reply_has_objects_at_the_right_depth():
    read = CALLER.deserialize_entity(None, message("reply_boot_two_instances")["result"])
    assert [[type(one) for one in row] for row in read] == [[objects.Selection] * 2] * 2
    limits = CALLER.deserialize_entity(None, message("reply_return_objects_false")["result"])[1]["limits"]
    assert isinstance(limits["numa_topology"], objects.NUMATopologyLimits)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ({"a": (1, {2})}, {"a": [1, [2]]}),
        (frozenset({"x"}), ["x"]),
        (None, None),
        ([objects.Aggregate()], [objects.Aggregate().obj_to_primitive()]),
    ],
)
def test_what_is_written(value, written):
    assert CALLER.serialize_entity(None, value) == written


def test_nested_envelopes_know_their_context():
    context = RequestContext()
    read = SERVER.deserialize_entity(context, {"x": [spec("boot_two_instances")]})
    assert read["x"][0].obj_context is context
    assert read["x"][0].flavor.obj_context is context


def deep(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("argument", "text"),
    [
        ({"nova_object.name": "Unheard"}, "envelope"),
        ({"a": [{"nova_object.name": "Unheard"}]}, "envelope"),
        ("x" * (serializer.LARGEST_ARGUMENT + 1), "bytes"),
        (["x"] * serializer.LARGEST_ARGUMENT, "bytes"),
        (deep(900), "JSON"),
        (1 << 70, "JSON"),
    ],
)
def test_unreadable_arguments(argument, text):
    with pytest.raises(errors.InvalidRequest, match=text) as caught:
        SERVER.deserialize_entity(None, argument)
    assert len(str(caught.value)) < 300


def test_a_caller_is_told():
    with pytest.raises(errors.InvalidRequest):
        CALLER.deserialize_entity(None, {"nova_object.name": "Unheard"})


@pytest.mark.parametrize(("context", "written"), [(None, {}), ({"a": 1}, {"a": 1})])
def test_contexts_that_are_none(context, written):
    assert CALLER.serialize_context(context) == written


@pytest.mark.parametrize("context", [None, {}, [], "x"])
def test_contexts_that_say_nothing(context):
    assert CALLER.deserialize_context(context).request_id


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(json_values)
def test_plain_json_passes_unchanged(value):
    assert SERVER.deserialize_entity(None, value) == value
    assert CALLER.serialize_entity(None, value) == value


@given(st.data())
def test_damaged_requests_are_read_or_refused(data):
    """Whatever is put in the place of a part of a request, reading it raises nothing else."""
    damaged = spec("boot_anti_affinity_numa_pci")
    part = damaged
    while isinstance(part, (dict, list)) and part:
        keys = sorted(part) if isinstance(part, dict) else list(range(len(part)))
        key = data.draw(st.sampled_from(keys))
        if data.draw(st.booleans()) or not isinstance(part[key], (dict, list)) or not part[key]:
            part[key] = data.draw(json_values)
            break
        part = part[key]
    try:
        read = SERVER.deserialize_entity(None, damaged)
    except errors.InvalidRequest:
        return
    if isinstance(read, objects.RequestSpec):
        assert as_json(read)["nova_object.name"] == "RequestSpec"
