"""The scheduler's own methods, and the server that has them (spec: wire-and-config 1.5).

The endpoint checks its arguments and calls the manager.
"""

from collections.abc import Callable, Sequence
import logging
import time
from typing import TYPE_CHECKING

from oslo_config import cfg
import oslo_messaging as messaging

from scheduler import objects
from scheduler.logs import RateLimitedLogger
from scheduler.rpc import checks, server
from scheduler.rpc.amqp import library
from scheduler.rpc.context import RequestContext
from scheduler.rpc.endpoints import VERSION, Endpoint, answering
from scheduler.rpc.heartbeats import Heartbeats
from scheduler.rpc.serializer import ServerSerializer

if TYPE_CHECKING:
    from scheduler.manager import SchedulerManager

LOG = logging.getLogger(f"nova.{__name__}")

#: An argument that was not sent, as opposed to one sent as null.
ABSENT = object()


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
    ) -> Sequence[object]:
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


def build(
    conf: cfg.ConfigOpts,
    transport: messaging.Transport,
    manager: "SchedulerManager",
    clock: Callable[[], float] = time.monotonic,
    heartbeats: Heartbeats | None = None,
) -> server.Server:
    """Return a server that hands requests to ``manager``, named ``[DEFAULT]/host``; not started.

    Args:
        transport: What ``transport.rpc_transport`` returned.
        clock: Seconds that only grow, for the interval between warnings about refused messages.
        heartbeats: Sends heartbeats to callers; by default a new one with its own thread.
    """
    warnings = RateLimitedLogger(LOG, clock=clock)
    scheduler = Scheduler(
        manager, warnings, conf.berth.largest_message, lambda: max(1, conf.scheduler.max_attempts)
    )
    served: list[object] = [scheduler]
    if conf.rpc_ping_enabled:
        # oslo.messaging looks at the global configuration object only, which is not used here
        served.append(library.PingEndpoint())
    return server.make(conf, transport, served, ServerSerializer(), warnings, heartbeats)
