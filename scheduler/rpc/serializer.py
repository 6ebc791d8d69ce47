"""Contexts and objects from and to JSON (spec: wire-and-config 2.1, 2.2)."""

from typing import NamedTuple

import orjson
import oslo_messaging as messaging

from scheduler import errors, objects
from scheduler.rpc.context import RequestContext

#: Bytes of one argument. A request with a server group of a hundred thousand members is half as large.
LARGEST_ARGUMENT = 8 << 20


class Unreadable(NamedTuple):
    """An argument that could not be read, with the error to answer."""

    error: errors.InvalidRequest


class ObjectSerializer(messaging.Serializer):
    """For a caller: what cannot be read raises one of the kinds of ``InvalidRequest``."""

    def serialize_entity(self, ctxt, entity):
        """Replace objects by their envelopes, and sets by lists, at any depth."""
        return _write(entity)

    def deserialize_entity(self, ctxt, entity):
        """Replace envelopes by objects, at any depth."""
        return _read(entity, ctxt)

    def serialize_context(self, ctxt):
        """The context as a dict; None and dicts are taken as they are."""
        return ctxt.to_dict() if hasattr(ctxt, "to_dict") else dict(ctxt or {})

    def deserialize_context(self, ctxt):
        """The context of a dict; never fails."""
        return RequestContext.from_dict(ctxt if isinstance(ctxt, dict) else {})


class ServerSerializer(ObjectSerializer):
    """For the server: what cannot be read becomes :class:`Unreadable`, and the endpoint answers its error."""

    def deserialize_entity(self, ctxt, entity):
        """Replace envelopes by objects, at any depth."""
        try:
            _check_size(entity)
            return _read(entity, ctxt)
        except errors.InvalidRequest as error:
            return Unreadable(error)
        except RecursionError:
            return Unreadable(errors.InvalidRequest("An argument is nested too deeply"))


def _write(entity):
    if hasattr(entity, "obj_to_primitive"):
        return entity.obj_to_primitive()
    if isinstance(entity, dict):
        return {key: _write(value) for key, value in entity.items()}
    if isinstance(entity, (list, tuple, set, frozenset)):
        return [_write(value) for value in entity]
    return entity


def _read(entity, context):
    if objects.is_envelope(entity):
        return objects.hydrate(entity, context)
    if isinstance(entity, dict):
        return {key: _read(value, context) for key, value in entity.items()}
    if isinstance(entity, list):
        return [_read(value, context) for value in entity]
    return entity


def _check_size(entity):
    # A compute sends all its instances in full at start, and only their ids are read.
    if isinstance(entity, dict) and entity.get("nova_object.name") == "InstanceList":
        return
    try:
        size = len(orjson.dumps(entity))
    except orjson.JSONEncodeError as error:
        raise errors.InvalidRequest(f"An argument is no plain JSON: {error}") from None
    if size > LARGEST_ARGUMENT:
        raise errors.InvalidRequest(f"An argument has {size} bytes; at most {LARGEST_ARGUMENT} are read")
