"""Envelopes of versioned objects: the base class of the wire objects, and reading of stored envelopes.

Wire objects are built on oslo.versionedobjects, but are not in its process-wide registry, which knows
classes by their bare names: an operator's filter may import nova into this process, and neither ``Flavor``
may replace the other (spec: wire-and-config 2.3-2.6).

Envelopes that computes store in their database rows are read as plain JSON, without making objects of them
(spec: numa-and-pci 1.1, 1.5): ``data_of`` and ``integer``.
"""

from collections.abc import Callable, Iterator, Mapping
import copy
import functools
import re
from typing import TYPE_CHECKING, Any

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
_LONGEST_VERSION = 30
_PLAIN_WORD = re.compile(r"[\w.-]{1,60}", re.ASCII)
_AFTER_SCHEME = re.compile(r"(?<=://)\S+")
_LONGEST_DETAIL = 200

#: Class name -> class, for all wire objects. Filled by the decorator ``register``.
REGISTRY: "dict[str, type[WireObject]]" = {}


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
        super().__init__(f"{path}: {_one_line(str(detail))}")


class IncompatibleObjectVersion(errors.InvalidRequest):
    """An object came in another major version than the one known here."""

    def __init__(self, objname, version, known):
        super().__init__(f"{objname} came in version {_word(version)}, known is {known}")


class UnsupportedObjectError(errors.InvalidRequest):
    """An envelope is broken, or names a class or a namespace that is not known here."""


def _word(value: object) -> str:
    """Return a name or version of a message for use in an error, if it looks like one; else only its type.

    The text of a broken message can be anything, also a URL with a password.
    """
    if isinstance(value, str):
        return repr(value) if _PLAIN_WORD.fullmatch(value) else f"<str of {len(value)} characters>"
    return "None" if value is None else f"<{type(value).__name__}>"


def _one_line(text: str) -> str:
    """Return the start of a text as one printable line, without what follows a URL's scheme."""
    # The rest of a long text is cut off before the search, and what is left of a URL after it.
    text = _AFTER_SCHEME.sub("***", text[: 2 * _LONGEST_DETAIL])[:_LONGEST_DETAIL]
    return "".join(char if char.isprintable() else " " for char in text)


class WireObject(base.VersionedObject):
    """Base of the wire objects.

    A field that is not set reads as the first of these: what ``lazy_defaults`` makes for it, the field's
    default (both are then set), None if the field is nullable (the field stays unset). Otherwise reading it
    raises ``MissingField``. ``"name" in obj`` is whether a field is set.
    """

    OBJ_SERIAL_NAMESPACE = "nova_object"
    OBJ_PROJECT_NAMESPACE = "nova"

    #: field name -> function that makes the value to be taken for it when it is unset
    lazy_defaults: dict[str, Callable[[], Any]] = {}
    #: ephemeral objects fill in every default as soon as they are made or read
    ephemeral = False
    _defaulting: tuple[str, ...] = ()

    if TYPE_CHECKING:  # ``register`` makes a property of each field

        def __getattr__(self, name: str) -> Any: ...

    def __init__(self, context: Any = None, **values: Any) -> None:
        super().__init__(context, **values)
        if self.ephemeral:
            self.obj_set_defaults()

    @classmethod
    def obj_class_from_name(cls, objname, objver):
        """Return the class for an envelope; all minor versions of the known major version are accepted.

        Raises:
            UnsupportedObjectError: There is no class of this name.
            IncompatibleObjectVersion: The class has another major version here.
        """
        known = REGISTRY.get(objname) if isinstance(objname, str) else None
        if known is None:
            raise UnsupportedObjectError(f"Unknown object class {_word(objname)}")
        if _version_kept(objver, known.VERSION) is None:
            raise IncompatibleObjectVersion(objname, objver, known.VERSION)
        return known

    @classmethod
    def obj_from_primitive(cls, primitive: Any, context: Any = None) -> Any:
        """Return the object for an envelope.

        Raises:
            InvalidRequest: One of its subclasses, if the envelope or a field cannot be read.
        """
        try:
            namespace, name, version = primitive[NAMESPACE], primitive[NAME], primitive[VERSION]
            data, changes = primitive[DATA], primitive.get(CHANGES) or ()
        except (KeyError, TypeError, AttributeError) as missing:
            raise UnsupportedObjectError(f"Broken object envelope: {_one_line(str(missing))}") from None
        if namespace != cls.OBJ_PROJECT_NAMESPACE:
            raise UnsupportedObjectError(f"Object {_word(name)} has a namespace other than nova's")
        objclass = cls.obj_class_from_name(name, version)
        return objclass._read(context, version, data, changes)  # noqa: SLF001 - a sister class

    @classmethod
    def _read(cls, context, version, data, changes):
        self = cls.__new__(cls)
        self._context = context
        self._changed_fields = set()
        kept = _version_kept(version, cls.VERSION)
        if kept is not None and kept != cls.VERSION:
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
        """Return the value of an unset field, as the docstring of the class says."""
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
        """Set an unset field to its default. Operators' filters may call this method, as nova's."""
        setattr(self, attrname, self._load(attrname))

    def obj_attr_is_set(self, attrname):
        """Return whether a field is set; null counts as set.

        Raises:
            AttributeError: The class has no such field.
        """
        if attrname not in self.fields and attrname not in self.obj_extra_fields:
            raise AttributeError(f"{self.obj_name()} object has no attribute '{attrname}'")
        return "_obj_" + attrname in self.__dict__

    def obj_version_before(self, version):
        """Return whether the sender of the object knows it only in a version older than ``version``."""
        return _numbers(self.VERSION) < _numbers(version)

    def set_fields(self) -> Iterator[tuple[str, Any]]:
        """Yield (name, value) of the fields that are set, in the order of the class."""
        for name in self.fields:
            if "_obj_" + name in self.__dict__:
                yield name, self.__dict__["_obj_" + name]

    def obj_to_primitive(
        self, target_version: str | None = None, version_manifest: dict[str, str] | None = None
    ) -> dict[str, Any]:
        """Return the envelope of this object. Peers need no older versions (spec: wire-and-config 2.6)."""
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
        """Return a copy that shares nothing with this object but its context."""
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


def wire_list(name: str, version: str, objname: str) -> Any:
    """Return the class, of this name, of lists of objects of the class called ``objname``."""
    objects = {"objects": fields.list_of(fields.nested(objname))}
    return register(type(name, (WireList,), {"__module__": __name__, "VERSION": version, "fields": objects}))


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
    """Give a wire object class its field properties and put it in ``REGISTRY``. A class decorator."""
    base.VersionedObjectRegistry.objectify(cls)
    for name in cls.fields:
        written = getattr(cls, name)
        setattr(cls, name, property(_reader(name), written.fset, written.fdel))
    cls._defaulting = tuple(n for n, f in cls.fields.items() if f.default is not fields.UNSET)
    REGISTRY[cls.__name__] = cls
    return cls


def _version_kept(version: object, known: str) -> str | None:
    """Return the version under which an object that came as ``version`` is forwarded; None if unreadable.

    The version of an older peer is kept. A newer object is forwarded in the version that is known here.
    """
    # The length is checked before the cache, which keeps its keys.
    if not isinstance(version, str) or len(version) > _LONGEST_VERSION:
        return None
    return _parsed_version_kept(version, known)


@functools.lru_cache(maxsize=512)
def _parsed_version_kept(version: str, known: str) -> str | None:
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


def is_envelope(value: object) -> bool:
    return isinstance(value, dict) and NAME in value


def hydrate(primitive: object, context: Any = None) -> Any:
    """Return the object for an envelope.

    Raises:
        InvalidRequest: One of its subclasses, if the envelope or a field cannot be read.
    """
    return WireObject.obj_from_primitive(primitive, context)


# A larger amount is an error of the compute. Sums of smaller ones can still be converted to a float.
MOST = 2**63 - 1


class Malformed(BerthError):
    """A value that a compute stored cannot be read; the text says in short what is wrong with it."""


def data_of(stored: object, name: str, is_known: Callable[[object], bool]) -> Mapping[str, Any]:
    """Return the fields in a stored envelope.

    Args:
        stored: Parsed JSON.
        name: The class that the envelope has to name.
        is_known: Returns whether a version can be read.

    Raises:
        Malformed: ``stored`` is no envelope of this class in a known version.
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


def integer(key: str, value: Any) -> int:
    """Return a stored whole number, which may be a text.

    Raises:
        Malformed: ``value`` is no whole number in range; the text names ``key``.
    """
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise Malformed(f"{key} is not a number: {value!r:.40}") from None
    if isinstance(value, float) and number != value:
        raise Malformed(f"{key} is not a whole number: {value!r}")
    if abs(number) > MOST:
        raise Malformed(f"{key} is out of range")
    return number
