"""The methods that can be called remotely, and no others (spec: wire-and-config 1.5).

An endpoint checks its arguments and calls the manager. Whatever goes wrong, the caller is answered and one
line is logged.
"""

import functools
import inspect
import logging

import oslo_messaging as messaging

from scheduler import errors, objects
from scheduler.rpc import checks
from scheduler.rpc.errors import for_caller
from scheduler.rpc.serializer import Unreadable
from scheduler.rpc.transport import BASE_NAMESPACE, TOPIC

LOG = logging.getLogger(__name__)

VERSION = "4.5"
BASE_VERSION = "1.1"

#: an argument that was not sent, as opposed to one sent as null
ABSENT = object()


def answering(method):
    """Decorator of endpoint methods: any error is logged once and sent as something a caller can read."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def answer(self, context, **arguments):
        context.update_store()
        try:
            signature.bind(self, context, **arguments)
        except TypeError as error:
            LOG.warning("%s was called wrongly: %.200s", method.__name__, error)
            result, failure = None, error
        else:
            result, failure = _attempt(method, self, context, arguments)
        if failure is not None:
            _answer_with(failure)
        return result

    return answer


def _attempt(method, endpoint, context, arguments):
    """The result and None, or None and the error to be sent."""
    try:
        _refuse_unreadable(arguments)
        return method(endpoint, context, **arguments), None
    except errors.NoValidHost as error:
        LOG.debug("%s", error)
        return None, for_caller(error)
    except errors.BerthError as error:
        LOG.warning("%s failed: %s: %s", method.__name__, type(error).__name__, error)
        return None, for_caller(error)
    except Exception as error:
        LOG.exception("%s failed", method.__name__)
        return None, for_caller(error)


def _refuse_unreadable(arguments):
    for value in arguments.values():
        if isinstance(value, Unreadable):
            raise value.error


@messaging.expected_exceptions(Exception)
def _answer_with(failure):
    # it has been logged: the library is to send it and be silent
    raise failure


class Scheduler:
    """The scheduler's own methods; ``manager`` does the work."""

    target = messaging.Target(version=VERSION)

    def __init__(self, manager):
        self._manager = manager

    @answering
    def select_destinations(
        self,
        context,
        request_spec=None,
        filter_properties=None,
        spec_obj=ABSENT,
        instance_uuids=None,
        return_objects=False,
        return_alternates=False,
    ):
        """Choose and claim a host for each instance; callers before 4.3 describe the request in two dicts."""
        if spec_obj is ABSENT:
            spec_obj = objects.RequestSpec.from_primitives(context, request_spec, filter_properties)
        return self._manager.select_destinations(
            context,
            checks.request_spec(spec_obj),
            checks.instance_uuids(instance_uuids),
            checks.flag(return_objects, "return_objects"),
            checks.flag(return_alternates, "return_alternates"),
        )

    @answering
    def update_aggregates(self, context, aggregates):
        """Take over aggregates that were made or changed."""
        self._manager.update_aggregates(context, checks.aggregates(aggregates))

    @answering
    def delete_aggregate(self, context, aggregate):
        """Forget an aggregate."""
        self._manager.delete_aggregate(context, checks.aggregate(aggregate))

    @answering
    def update_instance_info(self, context, host_name, instance_info):
        """Take over instances that a host has."""
        self._manager.update_instance_info(
            context, checks.text(host_name, "host_name"), checks.instances(instance_info)
        )

    @answering
    def delete_instance_info(self, context, host_name, instance_uuid):
        """Forget an instance that a host had."""
        self._manager.delete_instance_info(
            context, checks.text(host_name, "host_name"), checks.text(instance_uuid, "instance_uuid")
        )

    @answering
    def sync_instance_info(self, context, host_name, instance_uuids):
        """Compare what is known of a host with the UUIDs of all its instances."""
        self._manager.sync_instance_info(
            context, checks.text(host_name, "host_name"), checks.text_list(instance_uuids, "instance_uuids")
        )


class Base:
    """The methods that every service of nova has."""

    target = messaging.Target(namespace=BASE_NAMESPACE, version=BASE_VERSION)

    @answering
    def ping(self, context, arg):
        """Show that the service is alive."""
        return {"service": TOPIC, "arg": arg}

    @answering
    def get_backdoor_port(self, context):
        """The port of a debugging shell: null, as there is none."""
