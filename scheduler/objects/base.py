"""What all wire objects share: envelope, private registry, tolerant reading, defaults of unset fields.

The classes are built on oslo.versionedobjects, but never enter its process-wide registry, which knows
classes by bare name: an operator's filter may import nova into this process, and neither's ``Flavor`` may
replace the other's (spec: wire-and-config 2.3-2.6).

Versioned objects as computes store them in their rows: JSON that is read without making objects of it.

spec: numa-and-pci 1.1, 1.5
"""

from collections.abc import Callable, Mapping
import copy
import functools
import re

from oslo_versionedobjects import base

from scheduler import errors
from scheduler.errors import BerthError
from scheduler.objects import fields

NAME = "nova_object.name"
NAMESPACE = "nova_object.namespace"
VERSION = "nova_object.version"
DATA = "nova_object.data"
CHANGES = "nova_object.changes"

_VERSION_TEXT = re.compile(r"(\d{1,9})\.(\d{1,9})(\.\d{1,9})?\Z", re.ASCII)
_LONGEST_DETAIL = 200
_classes = {}


class MissingField(errors.InvalidRequest, AttributeError):
    """A field was needed that the sender left out and that has no default."""

    nova_name = "ObjectActionError"

    def __init__(self, objname, field):
        self.field = field
        super().__init__(f"{objname}.{field} is needed, but was not sent")


class InvalidField(errors.InvalidRequest, ValueError):
    """A field holds what its type cannot hold."""

    def __init__(self, path, detail):
        self.path = path
        super().__init__(f"{path}: {str(detail)[:_LONGEST_DETAIL]}")


class IncompatibleObjectVersion(errors.InvalidRequest):
    """An object came in another major version than the one known here."""

    def __init__(self, objname, version, known):
        super().__init__(f"{objname} came in version {str(version)[:40]}, known is {known}")


class UnsupportedObjectError(errors.InvalidRequest):
    """An envelope is broken, or names a class or a namespace that is not known here."""


class WireObject(base.VersionedObject):
    """Base of the wire objects.

    Reading a field that is not set gives, in this order: what ``lazy_defaults`` makes (kept), the field's
    default (kept), None if the field is nullable (not kept); otherwise :class:`MissingField` is raised.
    ``"name" in obj`` tells whether a field is set.
    """

    OBJ_SERIAL_NAMESPACE = "nova_object"
    OBJ_PROJECT_NAMESPACE = "nova"

    #: field name -> function that makes the value to be taken for it when it is unset
    lazy_defaults = {}
    #: ephemeral objects fill in every default as soon as they are made or read
    ephemeral = False

    def __init__(self, context=None, **values):
        super().__init__(context, **values)
        if self.ephemeral:
            self.obj_set_defaults()

    @classmethod
    def obj_class_from_name(cls, objname, objver):
        """The class for an envelope; any minor version of a known major will do."""
        known = _classes.get(objname) if isinstance(objname, str) else None
        if known is None:
            raise UnsupportedObjectError(f"Unknown object class {str(objname)[:60]}")
        if not isinstance(objver, str) or _version_kept(objver, known.VERSION) is None:
            raise IncompatibleObjectVersion(objname, objver, known.VERSION)
        return known

    @classmethod
    def obj_from_primitive(cls, primitive, context=None):
        """Make an object of an envelope.

        Raises ``InvalidRequest``, one of its kinds, if the envelope or a field cannot be read.
        """
        try:
            namespace, name, version = primitive[NAMESPACE], primitive[NAME], primitive[VERSION]
            data, changes = primitive[DATA], primitive.get(CHANGES) or ()
        except (KeyError, TypeError, AttributeError) as missing:
            raise UnsupportedObjectError(f"Broken object envelope: {str(missing)[:60]}") from None
        if namespace != cls.OBJ_PROJECT_NAMESPACE:
            raise UnsupportedObjectError(f"Object {str(name)[:60]} of a foreign namespace")
        objclass = cls.obj_class_from_name(name, version)
        return objclass._read(context, version, data, changes)  # noqa: SLF001 - a sister class

    @classmethod
    def _read(cls, context, version, data, changes):
        self = cls.__new__(cls)
        self._context = context
        self._changed_fields = set()
        kept = _version_kept(version, cls.VERSION)
        if kept != cls.VERSION:
            self.VERSION = kept
        name = None
        try:
            for name, value in data.items():
                field = cls.fields.get(name)
                if field is not None:
                    self.__dict__["_obj_" + name] = field.from_primitive(self, name, value)
            name = CHANGES
            self._changed_fields.update(x for x in changes if x in cls.fields)
        except errors.InvalidRequest:
            raise
        except Exception as error:
            raise InvalidField(f"{cls.__name__}.{name or DATA}", error) from error
        self._after_read()
        return self

    def _after_read(self):
        if self.ephemeral:
            self._fill_defaults()

    def _fill_defaults(self):
        for name in self._defaulting:
            if "_obj_" + name not in self.__dict__:
                self._load(name)

    def _load(self, name):
        """The value of an unset field; see the class's docstring."""
        field = self.fields[name]
        if name in self.lazy_defaults:
            value = self.lazy_defaults[name]()
        elif field.default is not fields.UNSET:
            value = copy.deepcopy(field.default)
        elif field.nullable:
            return None
        else:
            raise MissingField(self.obj_name(), name)
        if value is not None:
            value = self.__dict__["_obj_" + name] = field.coerce(self, name, value)
        return value

    def obj_load_attr(self, attrname):
        """Set an unset field to its default; as nova's objects, for code that calls it by name."""
        setattr(self, attrname, self._load(attrname))

    def obj_attr_is_set(self, attrname):
        """Whether a field is set, be it to null."""
        if attrname not in self.fields and attrname not in self.obj_extra_fields:
            raise AttributeError(f"{self.obj_name()} object has no attribute '{attrname}'")
        return "_obj_" + attrname in self.__dict__

    def obj_version_before(self, version):
        """Whether the object came from a peer that knows it in a version older than this."""
        return _numbers(self.VERSION) < _numbers(version)

    def set_fields(self):
        """Pairs (name, value) of the fields that are set, in the order of the class."""
        for name in self.fields:
            if "_obj_" + name in self.__dict__:
                yield name, self.__dict__["_obj_" + name]

    def obj_to_primitive(self, target_version=None, version_manifest=None):
        """The envelope of this object. Peers need no older versions (spec: wire-and-config 2.6)."""
        data = {name: self.fields[name].to_primitive(self, name, value) for name, value in self.set_fields()}
        envelope = {
            NAME: self.obj_name(),
            NAMESPACE: self.OBJ_PROJECT_NAMESPACE,
            VERSION: self.VERSION,
            DATA: data,
        }
        changes = [name for name in data if name in self._changed_fields or self._nested_change(data[name])]
        if changes:
            envelope[CHANGES] = changes
        return envelope

    def _nested_change(self, primitive):
        return isinstance(primitive, dict) and CHANGES in primitive

    def obj_clone(self):
        """A copy that shares nothing with this object but its context."""
        clone = type(self).__new__(type(self))
        for name, value in self.__dict__.items():
            clone.__dict__[name] = value if name == "_context" else _copy(value)
        return clone

    def __deepcopy__(self, memo):
        return self.obj_clone()


class WireList(base.ObjectListBase, WireObject):
    """Base of the list objects; behaves as a sequence of its ``objects``."""

    lazy_defaults = {"objects": list}

    def _nested_change(self, primitive):
        return any(CHANGES in item for item in primitive)


DictCompat = base.VersionedObjectDictCompat

#: fields of everything that lives in one of nova's databases
TIMESTAMPS = {
    "created_at": fields.moment(nullable=True),
    "updated_at": fields.moment(nullable=True),
}
PERSISTENT = {
    **TIMESTAMPS,
    "deleted_at": fields.moment(nullable=True),
    "deleted": fields.boolean(default=False),
}


def register(cls):
    """Class decorator: give a wire object its field properties and make it known to :func:`hydrate`."""
    base.VersionedObjectRegistry.objectify(cls)
    for name in cls.fields:
        written = getattr(cls, name)
        setattr(cls, name, property(_reader(name), written.fset, written.fdel))
    cls._defaulting = tuple(n for n, f in cls.fields.items() if f.default is not fields.UNSET)
    _classes[cls.__name__] = cls
    return cls


@functools.lru_cache(maxsize=512)
def _version_kept(version, known):
    """The number under which an object that came as ``version`` is sent on; None if it cannot be read.

    An older peer's number is kept; a newer object is sent on as what is known of it.
    """
    match = _VERSION_TEXT.match(version)
    if match is None:
        return None
    theirs, ours = (int(match[1]), int(match[2])), _numbers(known)
    if theirs[0] != ours[0]:
        return None
    return version if theirs < ours else known


def _numbers(version):
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _copy(value):
    if isinstance(value, WireObject):
        return value.obj_clone()
    if isinstance(value, list):
        return [_copy(item) for item in value]
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    # all else is immutable, or a set of what is
    return set(value) if isinstance(value, set) else value


def _reader(name):
    slot = "_obj_" + name

    def read(self):
        try:
            return self.__dict__[slot]
        except KeyError:
            return self._load(name)

    return read


def is_envelope(value):
    """Whether a piece of JSON is a serialized object."""
    return isinstance(value, dict) and NAME in value


def hydrate(primitive, context=None):
    """Make an object of its envelope.

    Raises ``InvalidRequest``, one of its kinds, if the envelope or a field cannot be read.
    """
    return WireObject.obj_from_primitive(primitive, context)


# Amounts beyond cannot be told from nonsense. Many of those below still add up to what becomes a float.
MOST = 2**63 - 1


class Malformed(BerthError):
    """What a compute stored cannot be read; ``reason`` says what is wrong with it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def data_of(stored: object, name: str, is_known: Callable[[object], bool]) -> Mapping:
    """The fields of an envelope. Raises ``Malformed`` unless it is one of class ``name``.

    ``is_known``: whether a version can be read.
    """
    if not isinstance(stored, dict) or stored.get(NAME) != name:
        raise Malformed(f"there is no {name} where one belongs")
    version = stored.get(VERSION)
    if not is_known(version):
        raise Malformed(f"{name} of unknown version {version!r:.40}")
    data = stored.get(DATA)
    if not isinstance(data, dict):
        raise Malformed(f"{name} without data")
    return data


def integer(key: str, value: object) -> int:
    """A whole number, be it a text. Raises ``Malformed``, which names ``key``."""
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise Malformed(f"{key} is not a number: {value!r:.40}") from None
    if isinstance(value, float) and number != value:
        raise Malformed(f"{key} is not a whole number: {value!r}")
    if abs(number) > MOST:
        raise Malformed(f"{key} is out of range")
    return number
