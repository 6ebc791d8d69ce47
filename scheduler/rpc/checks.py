"""Checks of the arguments of RPC methods.

Each function returns the value to continue with, or raises ``InvalidRequest`` with the name of the argument.
"""

from typing import TypeVar

from oslo_utils import uuidutils

from scheduler import errors, objects
from scheduler.request.reading import read

T = TypeVar("T")

#: Instances of one request, however small the reply.
MOST_INSTANCES = 16_000

#: The largest amount of a flavor: nova keeps each in a database column of 32 bits.
MOST_OF_FLAVOR = 2**31 - 1

#: Characters of the name of an availability zone, as in the column of nova's database.
LONGEST_ZONE = 255

_FLAVOR_AMOUNTS = ("vcpus", "memory_mb", "root_gb", "ephemeral_gb", "swap")

#: Bytes of a Selection in a message, its quotes escaped; with a network or nested providers it has more.
SELECTION_SIZE = 1160

#: Bytes of the dict for callers that want no Selections.
DICT_SIZE = 250


def check_reply_size(instances: int, selections: int, largest: int) -> None:
    """Check that the reply to a request will fit into a message, before anything is claimed.

    Args:
        selections: Selections for each of them; 0 if the caller wants dicts.
        largest: Bytes of the largest message.

    Raises:
        InvalidRequest: It will not fit.
    """
    most = largest // (selections * SELECTION_SIZE or DICT_SIZE)
    if instances > most:
        raise errors.InvalidRequest(
            f"{instances} instances do not fit into one reply of {largest} bytes; at most {most} are accepted"
        )


def request_spec(value: object) -> objects.RequestSpec:
    """Return a RequestSpec that has a flavor and a number of instances within bounds.

    Raises:
        InvalidRequest: It is no RequestSpec, has no flavor, or one with an amount that nova cannot store, has
            a zone that nova cannot store, or requests too many instances.
    """
    spec = _require(value, objects.RequestSpec, "spec_obj", "a RequestSpec")
    for name in _FLAVOR_AMOUNTS:
        if name in spec.flavor and not 0 <= (spec.flavor[name] or 0) <= MOST_OF_FLAVOR:
            raise errors.InvalidRequest(f"spec_obj.flavor.{name} must be 0 to {MOST_OF_FLAVOR}")
    if len(read(spec, "availability_zone") or "") > LONGEST_ZONE:
        raise errors.InvalidRequest(f"spec_obj.availability_zone has more than {LONGEST_ZONE} characters")
    if not 0 <= spec.num_instances <= MOST_INSTANCES:
        raise errors.InvalidRequest(f"spec_obj.num_instances must be 0 to {MOST_INSTANCES}")
    return spec


def instance_uuids(value: object) -> list[str] | None:
    """Return a list of different UUIDs, or None.

    Raises:
        InvalidRequest: It is no list, is too long, or has an element twice or one that is no UUID.
    """
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(uuid, str) for uuid in value):
        raise _wrong_type("instance_uuids", "a list of strings", value)
    if len(value) > MOST_INSTANCES:
        raise errors.InvalidRequest(
            f"instance_uuids has {len(value)} elements; at most {MOST_INSTANCES} are accepted"
        )
    if not all(uuidutils.is_uuid_like(uuid) for uuid in value):
        raise errors.InvalidRequest("instance_uuids has an element that is no UUID")
    if len(set(value)) != len(value):
        raise errors.InvalidRequest("instance_uuids names an instance twice")
    return value


def flag(value: object, name: str) -> bool:
    """Return true or false; null is false."""
    return value is not None and bool(_require(value, (bool, int), name, "a boolean"))


def text(value: object, name: str) -> str:
    """Return a string that is not empty."""
    if not isinstance(value, str) or not value:
        raise _wrong_type(name, "a non-empty string", value)
    return value


def number(value: object, name: str) -> float:
    """Return a number that is not negative.

    Raises:
        InvalidRequest: It is none.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
        raise _wrong_type(name, "a number that is not negative", value)
    return value


def uuids_of_instances(value: object) -> list[str]:
    """Return the UUIDs of an InstanceList as it is in a message: a compute sends all its instances in full.

    Raises:
        InvalidRequest: It is none.
    """
    try:
        return [text(one["nova_object.data"]["uuid"], "uuid") for one in value["nova_object.data"]["objects"]]  # type: ignore[index]
    except (TypeError, LookupError):
        raise _wrong_type("instance_info", "an InstanceList", value) from None


def _require(value: object, kinds: type[T] | tuple[type[T], ...], name: str, wanted: str) -> T:
    if not isinstance(value, kinds):
        raise _wrong_type(name, wanted, value)
    return value


def _wrong_type(name: str, wanted: str, value: object) -> errors.InvalidRequest:
    return errors.InvalidRequest(f"{name} must be {wanted}, not a value of type {type(value).__name__}")
