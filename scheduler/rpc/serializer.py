"""Conversion of contexts and objects from and to JSON (spec: wire-and-config 2.1, 2.2)."""

from collections.abc import Mapping
import math

import orjson
import oslo_messaging as messaging

from scheduler import errors, objects
from scheduler.rpc.context import RequestContext

#: Bytes of one argument. A request with a server group of 25,000 members is half as large; one of this size
#: takes some seconds, and ten times its memory.
LARGEST_ARGUMENT = 2 << 20


class ObjectSerializer(messaging.Serializer):
    """Reads and writes arguments and results; that of a server bounds what it reads."""

    def __init__(self, largest: float = math.inf) -> None:
        """Accept arguments of so many bytes."""
        self._largest = largest

    def serialize_entity(self, ctxt: RequestContext, entity: object) -> object:
        """Return ``entity`` with objects replaced by envelopes and sets by lists, at any depth."""
        return _write(entity)

    def deserialize_entity(self, ctxt: RequestContext, entity: object) -> object:
        """Return ``entity`` with envelopes replaced by objects, at any depth.

        Raises:
            InvalidRequest: An envelope cannot be read, or the argument is too large, or nested too deeply.
        """
        try:
            if self._largest < math.inf:
                _check_size(entity, self._largest)
            return _read(entity, ctxt)
        except RecursionError:
            raise errors.InvalidRequest("An argument is nested too deeply") from None

    def serialize_context(self, ctxt: RequestContext | Mapping[str, object] | None) -> dict[str, object]:
        """Return the context as a dict; it may be a dict already, or None."""
        return ctxt.to_dict() if isinstance(ctxt, RequestContext) else dict(ctxt or {})

    def deserialize_context(self, ctxt: object) -> RequestContext:
        """Return the context of a dict; never raises."""
        return RequestContext.from_dict(ctxt if isinstance(ctxt, dict) else {})


def _write(entity: object) -> object:
    if isinstance(entity, objects.WireObject):
        return entity.obj_to_primitive()
    if isinstance(entity, dict):
        return {key: _write(value) for key, value in entity.items()}
    if isinstance(entity, (list, tuple, set, frozenset)):
        return [_write(value) for value in entity]
    return entity


def _read(entity: object, context: RequestContext) -> object:
    if objects.is_envelope(entity):
        return objects.hydrate(entity, context)
    if isinstance(entity, dict):
        return {key: _read(value, context) for key, value in entity.items()}
    if isinstance(entity, list):
        return [_read(value, context) for value in entity]
    return entity


def _check_size(entity: object, largest: float) -> None:
    try:
        size = len(orjson.dumps(entity))
    except orjson.JSONEncodeError as error:
        raise errors.InvalidRequest(f"An argument is not plain JSON: {error}") from None
    if size > largest:
        raise errors.InvalidRequest(f"An argument has {size} bytes; at most {largest} are accepted")
