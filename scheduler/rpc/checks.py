"""What arguments have to be before the manager sees them.

Each function returns the value to go on with, or raises ``InvalidRequest`` naming the argument.
"""

from oslo_utils import uuidutils

from scheduler import errors, objects

#: Instances of one request. The reply to more would not fit in the largest message of RabbitMQ.
MOST_INSTANCES = 16_000


def request_spec(value):
    """A RequestSpec with a flavor, for a sensible number of instances."""
    if not isinstance(value, objects.RequestSpec):
        raise _wrong("spec_obj", "a RequestSpec", value)
    _ = value.flavor  # raises MissingField
    if not 0 <= value.num_instances <= MOST_INSTANCES:
        raise errors.InvalidRequest(f"spec_obj.num_instances has to be 0 to {MOST_INSTANCES}")
    return value


def instance_uuids(value):
    """A list of different UUIDs, or None."""
    if value is None:
        return None
    uuids = text_list(value, "instance_uuids")
    if len(uuids) > MOST_INSTANCES:
        raise errors.InvalidRequest(
            f"instance_uuids has {len(uuids)} elements; at most {MOST_INSTANCES} are taken"
        )
    if not all(uuidutils.is_uuid_like(uuid) for uuid in uuids):
        raise errors.InvalidRequest("instance_uuids has an element that is no UUID")
    if len(set(uuids)) != len(uuids):
        raise errors.InvalidRequest("instance_uuids names an instance twice")
    return uuids


def flag(value, name):
    """True or false; null is false."""
    if value is not None and not isinstance(value, (bool, int)):
        raise _wrong(name, "a boolean", value)
    return bool(value)


def text(value, name):
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise _wrong(name, "a text", value)
    return value


def text_list(value, name):
    """A list of texts, which may be empty."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise _wrong(name, "a list of texts", value)
    return value


def aggregates(value):
    """A list of aggregates, out of a list, an AggregateList or a single one."""
    found = [value] if isinstance(value, objects.Aggregate) else value
    if not isinstance(found, (list, objects.AggregateList)):
        raise _wrong("aggregates", "a list of aggregates", value)
    return [aggregate(item) for item in found]


def aggregate(value):
    """An aggregate that has an id."""
    if not isinstance(value, objects.Aggregate):
        raise _wrong("aggregate", "an Aggregate", value)
    _ = value.id  # raises MissingField
    return value


def instances(value):
    """An InstanceList whose instances all have their UUID."""
    if not isinstance(value, objects.InstanceList):
        raise _wrong("instance_info", "an InstanceList", value)
    _ = [instance.uuid for instance in value]  # raises MissingField
    return value


def _wrong(name, wanted, value):
    return errors.InvalidRequest(f"{name} has to be {wanted}, not a {type(value).__name__}")
