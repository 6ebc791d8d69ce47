"""The scheduler's own methods, and the server that has them (spec: wire-and-config 1.5).

The endpoint checks its arguments and calls the manager.
"""

from collections.abc import Callable, Sequence
import time
from typing import TYPE_CHECKING

from oslo_config import cfg
import oslo_messaging as messaging

from scheduler import objects
from scheduler.rpc import checks
from scheduler.rpc.bus import Bus
from scheduler.rpc.context import RequestContext
from scheduler.rpc.methods import VERSION, Cast, Method, Methods
from scheduler.rpc.serializer import LARGEST_ARGUMENT, ObjectSerializer
from scheduler.rpc.server import Server

if TYPE_CHECKING:
    from scheduler.manager import SchedulerManager

#: An argument that was not sent, as opposed to one sent as null.
ABSENT = object()


class Scheduler:
    """The scheduler's own methods, version 4.5."""

    def __init__(self, conf: cfg.ConfigOpts, manager: "SchedulerManager") -> None:
        self._conf, self._manager = conf, manager

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
        attempts = max(1, self._conf.scheduler.max_attempts) if with_alternates else 1
        number = spec.num_instances if uuids is None else len(uuids)
        checks.check_reply_size(number, attempts * as_objects, self._conf.berth.largest_message)
        return self._manager.select_destinations(context, spec, uuids, as_objects, with_alternates)

    def casts(self) -> dict[str, Cast]:
        """Return what takes each cast. Of their objects only uuids are read."""
        return {
            "update_aggregates": lambda _arguments: self._manager.reread_aggregates(),
            "delete_aggregate": lambda _arguments: self._manager.reread_aggregates(),
            "update_instance_info": lambda arguments: self._manager.reread_instances(
                checks.uuids_of_instances(arguments.get("instance_info"))
            ),
            "delete_instance_info": lambda arguments: self._manager.forget_instance(
                checks.text(arguments.get("instance_uuid"), "instance_uuid")
            ),
            # where instances are is read from the databases
            "sync_instance_info": lambda _arguments: None,
        }


def build(
    conf: cfg.ConfigOpts,
    transport: messaging.Transport,
    manager: "SchedulerManager",
    clock: Callable[[], float] = time.monotonic,
) -> Server:
    """Return a server that hands requests to ``manager``, named ``[DEFAULT]/host``; not started.

    Args:
        transport: What ``transport.rpc_transport`` returned.
        clock: Seconds that only grow.

    Raises:
        ConfigError: The transport is not RabbitMQ.
    """
    return Server(
        conf, Bus(transport, conf.berth.largest_message), methods(conf, manager, clock), clock=clock
    )


def methods(
    conf: cfg.ConfigOpts, manager: "SchedulerManager", clock: Callable[[], float] = time.monotonic
) -> Methods:
    """Return the methods of a scheduler."""
    scheduler = Scheduler(conf, manager)
    methods = {"select_destinations": Method(VERSION, scheduler.select_destinations)}
    if conf.rpc_ping_enabled:
        # oslo.messaging looks at the global configuration object only, which is not used here
        methods["oslo_rpc_server_ping"] = Method("1.0", lambda _context, **_arguments: "pong")
    return Methods(methods, scheduler.casts(), ObjectSerializer(LARGEST_ARGUMENT), clock)
