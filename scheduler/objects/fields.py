"""Field types of the wire objects, and short constructors for them.

``from_primitive`` of each type converts JSON into the value that an assignment would store, so that
``scheduler.objects.base`` does not coerce it a second time (spec: wire-and-config 2.4).
"""

import datetime as dt
from typing import Any
import uuid as uuidlib

from oslo_utils import strutils, timeutils
from oslo_versionedobjects import fields as ovo

UNSET = ovo.UnspecifiedDefault


class _OnePass:
    """Coerces values from the wire exactly as assigned values."""

    def from_primitive(self: Any, obj, attr, value):
        return self.coerce(obj, attr, value)


class Integer(_OnePass, ovo.Integer):
    def coerce(self, obj, attr, value):
        return value if type(value) is int else int(value)


class Float(_OnePass, ovo.Float):
    pass


class Boolean(_OnePass, ovo.Boolean):
    pass


class FlexibleBoolean(_OnePass, ovo.Boolean):
    def coerce(self, obj, attr, value):
        return value if type(value) is bool else strutils.bool_from_string(value)


class String(_OnePass, ovo.String):
    def coerce(self, obj, attr, value):
        return value if type(value) is str else super().coerce(obj, attr, value)


class Secret(String):
    """A text that must not be logged: a URL with its password."""

    def stringify(self, value):
        return "***"


class UUID(String):
    """Any text: nova's peers do not validate UUIDs either."""

    def coerce(self, obj, attr, value):
        return super().coerce(obj, attr, str(value) if isinstance(value, uuidlib.UUID) else value)


class VersionPredicate(_OnePass, ovo.VersionPredicate):
    pass


class IPAddress(_OnePass, ovo.IPAddress):
    pass


class Enum(String):
    """One of a set of words, which grows with every release of nova.

    A word that is not known here is kept: it may have been added later, and matches no host that lacks it
    (spec: wire-and-config 2.6).

    Attributes:
        aliases: Other spellings of them, or None. With aliases, even an empty map, texts are lower-cased.
    """

    def __init__(self, values, aliases=None):
        self.values = frozenset(values)
        self.aliases = aliases

    def coerce(self, obj, attr, value):
        value = super().coerce(obj, attr, value)
        if self.aliases is None:
            return value
        value = value.lower()
        return self.aliases.get(value, value)


class DateTime(_OnePass, ovo.DateTime):
    """An aware time; text without a zone is UTC. Written with seconds only."""

    def __init__(self):
        super().__init__(tzinfo_aware=True)

    def coerce(self, obj, attr, value):
        if isinstance(value, str):
            value = _parse_time(value)
        if not isinstance(value, dt.datetime):
            raise TypeError(f"A date and time is required in field {attr}, not a {type(value).__name__}")
        return value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC)


def _parse_time(text):
    try:
        return dt.datetime.fromisoformat(text)
    except ValueError:
        return timeutils.parse_isotime(text)


class Raw(_OnePass, ovo.FieldType):
    """JSON that is not converted, for large values that few rules read."""


class List(_OnePass, ovo.List):
    def from_primitive(self, obj, attr, value):
        _require(value, (list, tuple), attr, "list")
        decode = self._element_type.from_primitive
        return [decode(obj, attr, item) for item in value]


class Set(_OnePass, ovo.Set):
    def from_primitive(self, obj, attr, value):
        _require(value, (list, tuple, set), attr, "list")
        decode = self._element_type.from_primitive
        return {decode(obj, attr, item) for item in value}


class Dict(_OnePass, ovo.Dict):
    def from_primitive(self, obj, attr, value):
        _require(value, dict, attr, "dict")
        decode = self._element_type.from_primitive
        return {key: decode(obj, attr, item) for key, item in value.items()}


class Object(ovo.Object):
    """One nested object of the class called ``obj_name``."""

    def from_primitive(self, obj, attr, value):
        if isinstance(value, dict):
            value = obj.obj_from_primitive(value, obj.obj_context)
        return self.coerce(obj, attr, value)


class Field(ovo.Field):
    """A type with its nullability and default. Null on the wire reads as the default, if there is one."""

    def from_primitive(self, obj, attr, value):
        if value is None:
            return self._null(obj, attr)
        return self._type.from_primitive(obj, attr, value)


def _require(value, kinds, attr, name):
    if not isinstance(value, kinds):
        raise TypeError(f"A {name} is required in field {attr}, not a {type(value).__name__}")


def _constructor(kind):
    def build(*, nullable=False, default=UNSET, read_only=False):
        return Field(kind(), nullable=nullable, default=default, read_only=read_only)

    return build


integer = _constructor(Integer)
number = _constructor(Float)
boolean = _constructor(Boolean)
flexible_boolean = _constructor(FlexibleBoolean)
text = _constructor(String)
secret = _constructor(Secret)
uuid = _constructor(UUID)
address = _constructor(IPAddress)
moment = _constructor(DateTime)
version_predicate = _constructor(VersionPredicate)
raw = _constructor(Raw)


def word(values, aliases=None, *, nullable=False, default=UNSET):
    """Return a field of one word out of ``values``, a blank-separated text."""
    return Field(Enum(values.split(), aliases), nullable=nullable, default=default)


def nested(name, *, nullable=False, default=UNSET):
    """Return a field that holds one object of the class called ``name``."""
    return Field(Object(name), nullable=nullable, default=default)


def list_of(field, *, nullable=False, default=UNSET):
    """Return a field that holds a list of what ``field`` describes."""
    return Field(_compound(List, field), nullable=nullable, default=default)


def set_of(field, *, nullable=False, default=UNSET):
    """Return a field that holds a set; on the wire it is an array in arbitrary order."""
    return Field(_compound(Set, field), nullable=nullable, default=default)


def dict_of(field, *, nullable=False, default=UNSET):
    """Return a field that holds a dict with text keys."""
    return Field(_compound(Dict, field), nullable=nullable, default=default)


def _compound(kind, field):
    compound = kind(Raw())
    compound._element_type = field  # noqa: SLF001 - its own constructor cannot be given one of our fields
    return compound
