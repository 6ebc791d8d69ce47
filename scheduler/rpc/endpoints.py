"""The methods that can be called remotely, and no others (spec: wire-and-config 1.5).

An endpoint checks its arguments and calls the manager. Whatever a method raises, the caller gets a reply and
the log gets one line.
"""

from collections.abc import Callable
import functools
import inspect
import logging
from typing import TYPE_CHECKING

import oslo_messaging as messaging

from scheduler import errors, objects
from scheduler.logs import RateLimitedLogger
from scheduler.rpc import checks, delivery
from scheduler.rpc.context import RequestContext
from scheduler.rpc.errors import for_caller
from scheduler.rpc.serializer import Unreadable
from scheduler.rpc.transport import BASE_NAMESPACE, TOPIC

if TYPE_CHECKING:
    from scheduler.manager import SchedulerManager

LOG = logging.getLogger(f"nova.{__name__}")

VERSION = "4.5"
BASE_VERSION = "1.1"

Method = Callable[..., object]
"""A method of an endpoint."""

#: An argument that was not sent, as opposed to one sent as null.
ABSENT = object()


class Endpoint:
    """What all endpoints have.

    Attributes:
        warnings: Logs refused messages. Anyone on the bus can send those, so their number is limited.
    """

    def __init__(self, warnings: RateLimitedLogger | None = None) -> None:
        self.warnings = warnings or RateLimitedLogger(LOG)


def answering(method: Method) -> Method:
    """Decorate an endpoint method: any exception is logged once and sent in a form that callers can read."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def answer(self: Endpoint, context: RequestContext, **arguments: object) -> object:
        context.update_store()
        context.delivery = delivery.CURRENT.get()
        result: object = None
        failure: Exception | None = None
        try:
            signature.bind(self, context, **arguments)
        except TypeError as error:
            self.warnings.warning(
                f"{method.__name__} arguments", "Call of %s rejected: %.200s", method.__name__, error
            )
            failure = error
        else:
            result, failure = _attempt(method, self, context, arguments)
        if failure is not None:
            try:
                raise failure
            except Exception:  # noqa: BLE001 - it was logged: oslo.messaging sends it and logs nothing
                raise messaging.ExpectedException from None
            finally:
                # No frame of its traceback may know the error: such a circle would keep the whole message
                del failure
        return result

    return answer


def _attempt(
    method: Method, endpoint: Endpoint, context: RequestContext, arguments: dict[str, object]
) -> tuple[object, Exception | None]:
    """Return the result and None, or None and the exception to send."""
    try:
        _refuse_unreadable(arguments)
        return method(endpoint, context, **arguments), None
    except (errors.NoValidHost, errors.DependencyUnavailable) as error:
        LOG.debug("%s", error)
        return None, for_caller(error)
    except errors.BerthError as error:
        if isinstance(error, errors.ReturnedToBroker):
            _return_for_another(context.delivery, error)
        _warn(endpoint, method, error)
        return None, for_caller(error)
    except delivery.NotAnswered:
        raise
    except BaseException as error:  # also SystemExit, which a rule of an operator may raise
        if errors.is_fault_of_request(error):
            _warn(endpoint, method, error)
            LOG.debug("%s failed", method.__name__, exc_info=True)
        else:
            LOG.exception("%s failed", method.__name__)
        return None, for_caller(error)


def _warn(endpoint: Endpoint, method: Method, error: BaseException) -> None:
    name, kind = method.__name__, type(error).__name__
    endpoint.warnings.warning(f"{name} {kind}", "%s failed: %s: %s", name, kind, error)


def _return_for_another(current: delivery.Delivery | None, error: Exception) -> None:
    """Return a request to the broker: another scheduler, or the next process of this one, can serve it.

    Raises:
        Requeued: The message is to be delivered once more.
    """
    if current is not None and current.can_be_requeued:
        raise delivery.Requeued(str(error)) from error


def _refuse_unreadable(arguments: dict[str, object]) -> None:
    for value in arguments.values():
        if isinstance(value, Unreadable):
            raise value.take()


class Scheduler(Endpoint):
    """The scheduler's own methods, version 4.5."""

    target = messaging.Target(version=VERSION)

    def __init__(
        self,
        manager: "SchedulerManager",
        warnings: RateLimitedLogger,
        largest_reply: int,
        most_selections: Callable[[], int],
    ) -> None:
        """Serve the methods of a manager.

        Args:
            largest_reply: Bytes of the largest reply.
            most_selections: Returns how many Selections an instance gets if alternates are wanted.
        """
        super().__init__(warnings)
        self._manager = manager
        self._largest_reply = largest_reply
        self._most_selections = most_selections

    @answering
    def select_destinations(
        self,
        context: RequestContext,
        request_spec: object = None,
        filter_properties: object = None,
        spec_obj: object = ABSENT,
        instance_uuids: object = None,
        return_objects: object = False,
        return_alternates: object = False,
    ) -> list[object]:
        """Choose and claim a host for each instance.

        Args:
            request_spec: The first of the two dicts by which callers before 4.3 describe a request.
            filter_properties: The second one.
            instance_uuids: The instances; None claims nothing.
            return_objects: Whether to return Selections instead of dicts.
            return_alternates: Whether to return alternates too.

        Returns:
            One list of Selections for each instance, or one dict each.
        """
        if spec_obj is ABSENT:
            spec_obj = objects.RequestSpec.from_primitives(context, request_spec, filter_properties)
        spec = checks.request_spec(spec_obj)
        uuids = checks.instance_uuids(instance_uuids)
        as_objects = checks.flag(return_objects, "return_objects")
        with_alternates = checks.flag(return_alternates, "return_alternates")
        each = (self._most_selections() if with_alternates else 1) if as_objects else 0
        number = spec.num_instances if uuids is None else len(uuids)
        checks.check_reply_size(number, each, self._largest_reply)
        return self._manager.select_destinations(context, spec, uuids, as_objects, with_alternates)

    @answering
    def update_aggregates(self, context: RequestContext, aggregates: object) -> None:
        """Note that aggregates were created or changed."""
        self._manager.update_aggregates(context, checks.aggregates(aggregates))

    @answering
    def delete_aggregate(self, context: RequestContext, aggregate: object) -> None:
        """Note that an aggregate was deleted."""
        self._manager.delete_aggregate(context, checks.aggregate(aggregate))

    @answering
    def update_instance_info(self, context: RequestContext, host_name: object, instance_info: object) -> None:
        """Note that instances of a host were created or changed."""
        self._manager.update_instance_info(
            context, checks.text(host_name, "host_name"), checks.instances(instance_info)
        )

    @answering
    def delete_instance_info(self, context: RequestContext, host_name: object, instance_uuid: object) -> None:
        """Note that an instance has left a host."""
        self._manager.delete_instance_info(
            context, checks.text(host_name, "host_name"), checks.text(instance_uuid, "instance_uuid")
        )

    @answering
    def sync_instance_info(self, context: RequestContext, host_name: object, instance_uuids: object) -> None:
        """Compare the known instances of a host with the UUIDs of all its instances."""
        self._manager.sync_instance_info(
            context, checks.text(host_name, "host_name"), checks.text_list(instance_uuids, "instance_uuids")
        )


class Base(Endpoint):
    """The methods that every nova service has."""

    target = messaging.Target(namespace=BASE_NAMESPACE, version=BASE_VERSION)

    @answering
    def ping(self, context: RequestContext, arg: object) -> dict[str, object]:
        """Show that the service is alive."""
        return {"service": TOPIC, "arg": arg}

    @answering
    def get_backdoor_port(self, context: RequestContext) -> None:
        """Return null: there is no debugging shell."""
