import importlib
import json
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st
from oslo_versionedobjects import base as ovo
import pytest

from scheduler import errors, objects
from scheduler.objects import base
from tests.support.novas_modules import without_novas_modules
from tests.support.wire_examples import NAMES, as_json, envelope, envelopes, message, settled, spec


@pytest.mark.parametrize("name", [n for n in NAMES if not n.startswith("notification")])
def test_every_example_decodes(name):
    for found in envelopes(message(name)):
        obj = objects.hydrate(found)
        if "Instance" not in obj.obj_name():  # of instances only a part is read
            assert as_json(obj) == settled(found)


def test_clone_shares_nothing():
    original = objects.hydrate(spec("boot_anti_affinity_numa_pci"))
    before = as_json(original)
    clone = original.obj_clone()
    assert as_json(clone) == before
    clone.numa_topology.cells[0].cpu_pinning = {0: 4}
    clone.instance_group.hosts.append("elsewhere")
    clone.requested_resources[0].resources["VCPU"] = 1
    assert as_json(original) == before


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        ("1.0", "1.0"),
        ("1.1", "1.1"),
        ("1.2", "1.2"),
        ("1.2.7", "1.2"),
        ("1.3", "1.2"),
        ("1.99.1", "1.2"),
        ("1.1.4", "1.1.4"),
    ],
)
def test_minor_versions_are_read_and_older_ones_kept(version, kept):
    flavor = objects.hydrate(envelope("Flavor", {"vcpus": 2}, version))
    assert flavor.vcpus == 2
    assert flavor.obj_to_primitive()[base.VERSION] == kept


VERSIONS = ["2.0", "0.9", "2.2.1", "", "1", "1.x", "1.2.3.4", "1.-2", " 1.2", "1.٢", None, 1.2, [1], {}]
BROKEN = [
    {},
    {base.NAME: "Flavor"},
    {base.NAME: "Flavor", base.NAMESPACE: "nova", base.VERSION: "1.0"},
    envelope("NoSuchClass", {}),
    envelope(None, {}),
    envelope(["Flavor"], {}),
    envelope("WireObject", {}),
    {**envelope("Flavor", {}), base.NAMESPACE: "cinder"},
    {**envelope("Flavor", {}), base.NAMESPACE: None},
    [],
    "Flavor",
    None,
]
NESTED_VERSION = envelope("RequestSpec", {"flavor": envelope("Flavor", {}, "2.0")})
WRONG_CLASS = envelope("RequestSpec", {"flavor": envelope("Aggregate", {})})
CHANGES = [envelope("Flavor", {}, **{base.CHANGES: changes}) for changes in (3, [[]], [{}])]


@pytest.mark.parametrize(
    ("refused", "error", "text"),
    [
        *((envelope("Flavor", {}, each), objects.IncompatibleObjectVersion, "Flavor") for each in VERSIONS),
        (NESTED_VERSION, objects.IncompatibleObjectVersion, "Flavor"),
        *((each, objects.UnsupportedObjectError, None) for each in BROKEN),
        *((envelope("Flavor", data), objects.InvalidField, None) for data in (None, [], "x", 3)),
        *((each, objects.InvalidField, "changes") for each in CHANGES),
        (WRONG_CLASS, objects.InvalidField, r"RequestSpec\.flavor"),
    ],
)
def test_what_is_no_object_of_a_known_version_is_refused(refused, error, text):
    with pytest.raises(error, match=text):
        objects.hydrate(refused)


def test_unknown_fields_and_changes_are_ignored():
    flavor = objects.hydrate(envelope("Flavor", {"vcpus": 1, "new": [1]}, **{base.CHANGES: ["vcpus", "new"]}))
    assert flavor.obj_what_changed() == {"vcpus"}
    assert flavor.obj_to_primitive()[base.DATA] == {"vcpus": 1}


def test_null_changes_mean_no_changes():
    assert not objects.hydrate(envelope("Flavor", {}, **{base.CHANGES: None})).obj_what_changed()


def test_changes_of_a_new_object():
    limits = objects.SchedulerLimits.from_dict({})
    assert sorted(limits.obj_to_primitive()[base.CHANGES]) == [
        "disk_gb",
        "memory_mb",
        "numa_topology",
        "vcpu",
    ]
    limits.obj_reset_changes()
    assert base.CHANGES not in limits.obj_to_primitive()


def test_change_inside_is_a_change_outside():
    request = objects.hydrate(envelope("RequestSpec", {"flavor": envelope("Flavor", {"vcpus": 1})}))
    assert base.CHANGES not in request.obj_to_primitive()
    request.flavor.vcpus = 2
    assert request.obj_to_primitive()[base.CHANGES] == ["flavor"]


def test_change_inside_a_list_object():
    groups = objects.SecurityGroupList(objects=[objects.SecurityGroup(name="web")])
    groups.obj_reset_changes()
    assert groups.obj_to_primitive()[base.CHANGES] == ["objects"]


def test_lists_behave_as_sequences():
    groups = objects.SecurityGroupList(objects=[objects.SecurityGroup(name=name) for name in "abc"])
    assert [g.name for g in groups] == ["a", "b", "c"]
    assert len(groups) == 3
    assert groups[1].name == "b"
    assert len(objects.SecurityGroupList()) == 0
    assert list(objects.hydrate(envelope("SecurityGroupList", {}))) == []


def test_unset_fields_read_as_default_or_none_or_raise():
    flavor = objects.Flavor()
    assert "vcpus" not in flavor
    assert "description" not in flavor
    assert flavor.description is None
    assert "description" not in flavor
    assert flavor.rxtx_factor == 1.0
    with pytest.raises(objects.MissingField, match=r"Flavor\.vcpus") as caught:
        _ = flavor.vcpus
    assert isinstance(caught.value, errors.InvalidRequest)
    assert caught.value.field == "vcpus"
    assert getattr(flavor, "vcpus", 7) == 7
    with pytest.raises(AttributeError):
        _ = flavor.no_such_field
    assert "no_such_field" not in flavor


def test_default_is_not_shared():
    one, other = objects.Flavor(), objects.Flavor()
    one.extra_specs["a"] = "b"
    assert other.extra_specs == {}
    assert one.extra_specs == {"a": "b"}


def test_ephemeral_objects_take_their_defaults():
    for group in (objects.RequestGroup(), objects.hydrate(envelope("RequestGroup", {}))):
        assert group.resources == {}
        assert group.use_same_provider is True
        assert group.required_traits == set()
        assert {"resources", "aggregates", "provider_uuids"} <= set(dict(group.set_fields()))


def test_read_only_field_keeps_its_value():
    cell = objects.CellMapping(id=1)
    cell.id = 1
    with pytest.raises(Exception, match="id"):
        cell.id = 2


def test_field_can_be_set_to_its_default_by_name():
    flavor = objects.Flavor()
    flavor.obj_load_attr("description")
    assert "description" in flavor


FOREIGN_NOVA = """
from oslo_versionedobjects import base, fields

class Shared(base.VersionedObject):
    OBJ_SERIAL_NAMESPACE = "nova_object"
    OBJ_PROJECT_NAMESPACE = "nova"

@base.VersionedObjectRegistry.register
class Flavor(Shared):
    VERSION = "1.2"
    fields = {"vcpus": fields.IntegerField(), "theirs": fields.IntegerField()}

@base.VersionedObjectRegistry.register
class RequestSpec(Shared):
    VERSION = "1.15"
    fields = {"flavor": fields.ObjectField("Flavor")}
"""


@pytest.fixture
def nova(tmp_path, monkeypatch):
    """A package ``nova`` that registers its own classes under the names of ours."""
    registry = ovo.VersionedObjectRegistry.obj_classes()
    saved = dict(registry)
    (tmp_path / "nova").mkdir()
    (tmp_path / "nova" / "__init__.py").touch()
    (tmp_path / "nova" / "objects.py").write_text(FOREIGN_NOVA)
    monkeypatch.syspath_prepend(tmp_path)
    with without_novas_modules():
        yield importlib.import_module("nova.objects")
    registry.clear()
    registry.update(saved)


def test_ours_are_not_in_the_library_s_registry():
    assert not set(base.REGISTRY) & set(ovo.VersionedObjectRegistry.obj_classes())


def test_nova_s_classes_do_not_become_ours(nova):
    ours = objects.hydrate(spec("boot_two_instances"))
    assert type(ours) is objects.RequestSpec
    assert type(ours.flavor) is objects.Flavor
    assert type(ours.obj_clone().flavor) is objects.Flavor


def test_our_classes_do_not_become_nova_s(nova):
    primitive = nova.RequestSpec(flavor=nova.Flavor(vcpus=1, theirs=2)).obj_to_primitive()
    assert type(nova.RequestSpec.obj_from_primitive(primitive).flavor) is nova.Flavor
    assert "theirs" not in objects.hydrate(primitive).flavor.obj_to_primitive()[base.DATA]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_any_data_is_read_or_refused(data):
    """No JSON whatever makes hydration raise anything but InvalidRequest."""
    name = data.draw(st.sampled_from(sorted(base.REGISTRY)))
    known = base.REGISTRY[name]
    values = data.draw(
        st.dictionaries(st.sampled_from(sorted(known.fields)) | st.text(max_size=5), json_values)
    )
    try:
        obj = objects.hydrate(envelope(name, values, known.VERSION))
    except errors.InvalidRequest:
        return
    assert as_json(objects.hydrate(json.loads(json.dumps(obj.obj_to_primitive())))) == as_json(obj)


@given(json_values)
def test_any_json_is_read_or_refused(value):
    with pytest.raises(errors.InvalidRequest):
        objects.hydrate(value)


@pytest.mark.parametrize("version", ["1." + "9" * 4_000_000, "x" * 4_000_000], ids=["digits", "letters"])
def test_long_versions_are_refused_and_not_kept_in_memory(version):
    tracemalloc.start()
    try:
        for number in range(5):
            with pytest.raises(objects.IncompatibleObjectVersion):
                objects.hydrate(envelope("Flavor", {}, f"{version}{number}"))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000


SECRET_URL = "rabbit://nova:PASS@host:5672/"
HOSTILE = "a\nb\r\x1b[31m\u2028c" + "d" * 4000


@pytest.mark.parametrize("text", [SECRET_URL, HOSTILE], ids=["password", "hostile"])
@pytest.mark.parametrize(
    "broken",
    [
        lambda text: envelope(text, {}),
        lambda text: envelope([text], {}),
        lambda text: envelope("Flavor", {}, text),
        lambda text: envelope("Flavor", {}, {"a": text}),
        lambda text: {**envelope(text, {}), base.NAMESPACE: "cinder"},
        lambda text: envelope("Flavor", {"vcpus": text}),
        lambda text: envelope("Flavor", {"created_at": text}),
        lambda text: envelope("NetworkRequest", {"address": text}),
        lambda text: envelope("Flavor", {"vcpus": "x" * 190 + text}),
    ],
    ids=["name", "list", "version", "map", "namespace", "integer", "time", "address", "late"],
)
def test_errors_are_one_short_printable_line_without_passwords(broken, text):
    with pytest.raises(errors.InvalidRequest) as caught:
        objects.hydrate(broken(text))
    assert "PASS" not in str(caught.value)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("NoSuchClass", "'NoSuchClass'"),
        ("a b", "<str of 3 characters>"),
        ("x" * 61, "<str of 61 characters>"),
        (["Flavor"], "<list>"),
        (None, "None"),
    ],
)
def test_names_in_errors_are_shown_only_if_they_are_short_words(name, shown):
    with pytest.raises(objects.UnsupportedObjectError) as caught:
        objects.hydrate(envelope(name, {}))
    assert str(caught.value) == f"Unknown object class {shown}"
