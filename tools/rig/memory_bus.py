"""Serves the methods of a scheduler on oslo.messaging's bus in memory, which the product does not use.

Nothing is acknowledged late there, no reply is confirmed, and no call is delivered twice.
"""

from typing import Any

import oslo_messaging as messaging
from oslo_serialization import jsonutils

from scheduler.rpc.calls import Call, Event
from scheduler.rpc.errors import of_failure
from scheduler.rpc.methods import Methods
from scheduler.rpc.transport import BASE_NAMESPACE, TOPIC
from scheduler.rpc.wire import Frame

IN_MEMORY = "fake://"


class _Endpoint:
    def __init__(self, methods: Methods, namespace: str | None, version: str) -> None:
        self.target = messaging.Target(namespace=namespace, version=version)
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        def answer(context: dict[str, Any], **arguments: Any) -> Any:
            message = {"method": name, "args": arguments, "namespace": self.target.namespace}
            call = Call(Frame({**message, "version": self.target.version}, context))
            answer = self._methods.call(call)
            call.end_claims(Event.FAILED if answer.failure else Event.REPLIED)
            if answer.failure:
                sent = jsonutils.loads(answer.failure)
                raise of_failure(sent["class"], sent["module"], sent["message"], sent["kwargs"])
            return answer.result

        return answer


def serve(
    methods: Methods, transport: messaging.Transport, host: str, topic: str = TOPIC, version: str = "4.5"
) -> Any:
    """Return a server of oslo.messaging's own, not started."""
    endpoints = [_Endpoint(methods, None, version), _Endpoint(methods, BASE_NAMESPACE, "1.1")]
    return messaging.get_rpc_server(
        transport,
        messaging.Target(topic=topic, server=host),
        endpoints,
        access_policy=messaging.DefaultRPCAccessPolicy,
    )
