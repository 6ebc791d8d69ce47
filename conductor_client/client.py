"""The client of the scheduler's RPC interface (spec: wire-and-config 1.5, 1.6, 4.2)."""

import oslo_messaging as messaging

from conductor_client import errors

TOPIC = "scheduler"
VERSION = "4.5"

# Both are "no host" to a caller; a scheduler only sends the first.
NO_VALID_HOST = ("NoValidHost", "MaxRetriesExceeded")


class SchedulerClient:
    """Calls ``select_destinations`` as nova's conductor does, and casts what nova's API and computes do.

    bus: the API-level message bus.
    timeout: seconds for a whole call (nova's ``long_rpc_timeout``).
    monitor: seconds without any sign of life from the scheduler after which a call is given up (nova's
    ``rpc_response_timeout``); None asks for no signs of life.
    """

    def __init__(self, bus, timeout=1800, monitor=60):
        self._client = bus.client(TOPIC, VERSION, timeout=timeout, call_monitor_timeout=monitor)

    @classmethod
    def from_conf(cls, bus):
        """A client with the time limits that the bus's configuration has."""
        return cls(bus, timeout=bus.conf.long_rpc_timeout, monitor=bus.conf.rpc_response_timeout)

    def select_destinations(
        self, context, spec, instance_uuids, return_objects=True, return_alternates=False
    ):
        """Choose and claim a host for each instance.

        Returns, in the order of ``instance_uuids``, a list of ``objects.Selection`` each: the claimed host,
        then its alternates. With ``return_objects`` false, one dict ``{"host", "nodename", "limits"}`` each.

        Raises ``NoValidHost``; ``oslo_messaging.RemoteError`` for anything else that went wrong over there,
        oslo_messaging.MessagingTimeout if nobody answers.
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
            if _class_name(error) in NO_VALID_HOST:
                raise errors.NoValidHost.from_message(_message(error)) from error
            raise

    def update_aggregates(self, context, aggregates):
        """Tell all schedulers of new or changed host aggregates (``objects.Aggregate``)."""
        self._tell(context, "update_aggregates", aggregates=aggregates)

    def delete_aggregate(self, context, aggregate):
        """Tell all schedulers that a host aggregate is gone."""
        self._tell(context, "delete_aggregate", aggregate=aggregate)

    def update_instance_info(self, context, host_name, instance_info):
        """Tell all schedulers of new or changed instances of a host (``objects.InstanceList``)."""
        self._tell(context, "update_instance_info", host_name=host_name, instance_info=instance_info)

    def delete_instance_info(self, context, host_name, instance_uuid):
        """Tell all schedulers that an instance has left a host."""
        self._tell(context, "delete_instance_info", host_name=host_name, instance_uuid=instance_uuid)

    def sync_instance_info(self, context, host_name, instance_uuids):
        """Tell all schedulers which instances a host has."""
        self._tell(context, "sync_instance_info", host_name=host_name, instance_uuids=instance_uuids)

    def _tell(self, context, method, **arguments):
        self._client.prepare(fanout=True).cast(context, method, **arguments)


def _class_name(error):
    """The name of the class raised over there; the in-memory driver hands over the error itself."""
    return error.exc_type if isinstance(error, messaging.RemoteError) else type(error).__name__


def _message(error):
    return str(error.value) if isinstance(error, messaging.RemoteError) else str(error)
