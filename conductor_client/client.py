"""The client of the scheduler's RPC interface (spec: wire-and-config 1.5, 1.6, 4.2)."""

from collections.abc import Sequence
from typing import Self

import oslo_messaging as messaging

from conductor_client.bus import Bus
from scheduler import objects
from scheduler.errors import NoValidHost
from scheduler.rpc.context import RequestContext

TOPIC = "scheduler"
VERSION = "4.5"


class SchedulerClient:
    """Calls ``select_destinations`` as nova's conductor does, and casts as nova's API and computes do."""

    def __init__(self, bus: Bus, timeout: float = 1800, monitor: float | None = 60) -> None:
        """Call the scheduler on a bus.

        Args:
            timeout: Seconds for a whole call (nova's ``long_rpc_timeout``).
            monitor: Seconds without a heartbeat of the scheduler after which a call fails (nova's
                ``rpc_response_timeout``); None requests no heartbeats.
        """
        self._client = bus.client(TOPIC, VERSION, timeout=timeout, call_monitor_timeout=monitor)

    @classmethod
    def from_conf(cls, bus: Bus) -> Self:
        """Return a client with the time limits of the options of the bus."""
        return cls(bus, timeout=bus.conf.long_rpc_timeout, monitor=bus.conf.rpc_response_timeout)

    def select_destinations(
        self,
        context: RequestContext,
        spec: objects.RequestSpec,
        instance_uuids: Sequence[str] | None,
        return_objects: bool = True,
        return_alternates: bool = False,
    ) -> list:
        """Choose and claim a host for each instance.

        Returns:
            A list of ``objects.Selection`` for each instance, in order: the claimed host, then its
            alternates. With ``return_objects`` false, one dict ``{"host", "nodename", "limits"}`` each.

        Raises:
            NoValidHost: No host can take an instance.
            RemoteError: Any other failure of the scheduler (oslo_messaging).
            MessagingTimeout: No scheduler replied (oslo_messaging).
        """
        try:
            return self._client.call(
                context,
                "select_destinations",
                spec_obj=spec,
                instance_uuids=instance_uuids,
                return_objects=return_objects,
                return_alternates=return_alternates,
            )
        except Exception as error:
            # The in-memory driver raises what was raised.
            name, text = type(error).__name__, str(error)
            if isinstance(error, messaging.RemoteError):
                name, text = error.exc_type, str(error.value)
            if name != "NoValidHost":
                raise
            raise NoValidHost(text.removeprefix(str(NoValidHost()))) from error

    def update_aggregates(self, context: RequestContext, aggregates: Sequence[objects.Aggregate]) -> None:
        """Inform all schedulers about new or changed host aggregates."""
        self._cast(context, "update_aggregates", aggregates=aggregates)

    def delete_aggregate(self, context: RequestContext, aggregate: objects.Aggregate) -> None:
        """Inform all schedulers that a host aggregate was deleted."""
        self._cast(context, "delete_aggregate", aggregate=aggregate)

    def update_instance_info(
        self, context: RequestContext, host_name: str, instance_info: objects.InstanceList
    ) -> None:
        """Inform all schedulers about new or changed instances of a host."""
        self._cast(context, "update_instance_info", host_name=host_name, instance_info=instance_info)

    def delete_instance_info(self, context: RequestContext, host_name: str, instance_uuid: str) -> None:
        """Inform all schedulers that an instance has left a host."""
        self._cast(context, "delete_instance_info", host_name=host_name, instance_uuid=instance_uuid)

    def sync_instance_info(
        self, context: RequestContext, host_name: str, instance_uuids: Sequence[str]
    ) -> None:
        """Inform all schedulers about all instances of a host."""
        self._cast(context, "sync_instance_info", host_name=host_name, instance_uuids=instance_uuids)

    def _cast(self, context: RequestContext, method: str, **arguments: object) -> None:
        self._client.prepare(fanout=True).cast(context, method, **arguments)
