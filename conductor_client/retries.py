"""The attempts of a build or a resize: the ``retry`` entry of ``filter_properties``.

spec: host-state-and-cells 7.3
"""

from collections.abc import Sequence

import oslo_messaging as messaging

from scheduler import objects
from scheduler.errors import NoValidHost
from scheduler.rpc.context import RequestContext


def first(spec: objects.RequestSpec, max_attempts: int) -> dict:
    """Return the filter properties of a new build.

    Without ``retry`` in them a failure is final: if only one attempt is allowed (nova's
    ``[scheduler]/max_attempts``), or the user has forced the host.
    """
    is_forced = len(spec.force_hosts or ()) == 1 or len(spec.force_nodes or ()) == 1
    if max_attempts == 1 or is_forced:
        return {}
    return {"retry": {"num_attempts": 1, "hosts": []}}


def again(filter_properties: dict, max_attempts: int) -> dict:
    """Return the filter properties of the next attempt.

    Raises:
        NoValidHost: All attempts are used.
    """
    retry = filter_properties["retry"]
    attempt = retry["num_attempts"] + 1
    if attempt > max_attempts:
        raise NoValidHost(f"All {max_attempts} attempts have failed.")
    return {**filter_properties, "retry": {**retry, "num_attempts": attempt}}


def on_host(filter_properties: dict, selection: objects.Selection) -> dict:
    """Return the filter properties for a compute: its host and node are in the list of those tried."""
    limits = {"limits": selection.limits}
    retry = filter_properties.get("retry")
    if retry is None:
        return {**filter_properties, **limits}
    tried = [*retry["hosts"], [selection.service_host, selection.nodename]]
    return {**filter_properties, **limits, "retry": {**retry, "hosts": tried}}


def send(
    computes: messaging.RPCClient,
    context: RequestContext,
    method: str,
    selection: objects.Selection,
    host_list: Sequence[objects.Selection],
    filter_properties: dict,
    **arguments: object,
) -> None:
    """Have the host of a Selection, which is claimed, take an instance; ``host_list`` has the alternates."""
    computes.cast(
        context,
        method,
        filter_properties=on_host(filter_properties, selection),
        host=selection.service_host,
        node=selection.nodename,
        host_list=host_list,
        **arguments,
    )
