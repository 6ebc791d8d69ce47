"""Field types of the wire objects, and short constructors for them.

Fields convert JSON into the value that an assignment would store, so that ``scheduler.objects.base`` does not
coerce it a second time (spec: wire-and-config 2.4). They use ``decode`` of their type, or else ``coerce``.
"""

import datetime as dt
import uuid as uuidlib

from oslo_utils import strutils, timeutils
from oslo_versionedobjects import fields as ovo

UNSET = ovo.UnspecifiedDefault


class Integer(ovo.Integer):
    def coerce(self, obj, attr, value):
        return value if type(value) is int else int(value)


class FlexibleBoolean(ovo.Boolean):
    def coerce(self, obj, attr, value):
        return value if type(value) is bool else strutils.bool_from_string(value)


class String(ovo.String):
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


class DateTime(ovo.DateTime):
    """An aware time; text without a zone is UTC. Written with seconds only."""

    def __init__(self):
        super().__init__(tzinfo_aware=True)

    def coerce(self, obj, attr, value):
        if isinstance(value, str):
            try:
                value = dt.datetime.fromisoformat(value)
            except ValueError:
                value = timeutils.parse_isotime(value)
        if not isinstance(value, dt.datetime):
            raise TypeError(f"A date and time is required in field {attr}, not a {type(value).__name__}")
        return value.astimezone(dt.UTC) if value.tzinfo else value.replace(tzinfo=dt.UTC)


class List(ovo.List):
    def decode(self, obj, attr, value):
        _require(value, (list, tuple), attr, "list")
        decoded = self._element_type.from_primitive
        return [decoded(obj, attr, item) for item in value]


class Set(ovo.Set):
    def decode(self, obj, attr, value):
        _require(value, (list, tuple, set), attr, "list")
        decoded = self._element_type.from_primitive
        return {decoded(obj, attr, item) for item in value}


class Dict(ovo.Dict):
    def decode(self, obj, attr, value):
        _require(value, dict, attr, "dict")
        decoded = self._element_type.from_primitive
        return {key: decoded(obj, attr, item) for key, item in value.items()}


class Object(ovo.Object):
    """One nested object of the class called ``obj_name``."""

    def decode(self, obj, attr, value):
        if isinstance(value, dict):
            value = obj.obj_from_primitive(value, obj.obj_context)
        return self.coerce(obj, attr, value)


class Field(ovo.Field):
    """A type with its nullability and default. Null on the wire reads as the default, if there is one."""

    def __init__(self, kind, **options):
        super().__init__(kind, **options)
        self._decode = getattr(kind, "decode", kind.coerce)

    def from_primitive(self, obj, attr, value):
        return self._null(obj, attr) if value is None else self._decode(obj, attr, value)


def _require(value, kinds, attr, name):
    if not isinstance(value, kinds):
        raise TypeError(f"A {name} is required in field {attr}, not a {type(value).__name__}")


def _constructor(kind):
    def build(*, nullable=False, default=UNSET, read_only=False):
        return Field(kind(), nullable=nullable, default=default, read_only=read_only)

    return build


integer = _constructor(Integer)
number = _constructor(ovo.Float)
boolean = _constructor(ovo.Boolean)
flexible_boolean = _constructor(FlexibleBoolean)
text = _constructor(String)
secret = _constructor(Secret)
uuid = _constructor(UUID)
address = _constructor(ovo.IPAddress)
moment = _constructor(DateTime)
version_predicate = _constructor(ovo.VersionPredicate)
raw = _constructor(ovo.FieldType)  # JSON that is not converted, for large values that few rules read


def word(values, aliases=None, *, nullable=False, default=UNSET):
    """Return a field of one word out of ``values``, a blank-separated text."""
    return Field(Enum(values.split(), aliases), nullable=nullable, default=default)


def nested(name, *, nullable=False, default=UNSET):
    """Return a field that holds one object of the class called ``name``."""
    return Field(Object(name), nullable=nullable, default=default)


def _container(kind):
    def build(field, *, nullable=False, default=UNSET):
        container = kind(ovo.FieldType())
        container._element_type = field  # noqa: SLF001 - its own constructor cannot be given one of our fields
        return Field(container, nullable=nullable, default=default)

    return build


# Of what the given field describes. A set is on the wire an array in arbitrary order, a dict has text keys.
list_of = _container(List)
set_of = _container(Set)
dict_of = _container(Dict)


def each(names, field):
    """Return fields of several names, separated by blanks, that hold the same."""
    return dict.fromkeys(names.split(), field)
