"""The RPC interface of the scheduler on the message bus.

::

    transport ── server ── serializer ── scheduler_endpoint ── manager
                   │        (context,     (endpoints, checks)
               heartbeats    objects)

``amqp`` acknowledges a request after its reply, and confirms replies; ``calls`` says what becomes of its
message and its claims. ``dispatcher`` sees to it that each request gets a reply. ``reply_queues`` has the
requests whose reply queue is missing, and ``dropped_calls`` counts those whose callers have left.
``open_calls`` says what calls wait for that are not answered yet. ``activity`` says whether the threads of a
server are stuck or dead. A router calls schedulers by ``client``. ``broker_errors`` says what to do if the
broker refuses the server. ``errors`` turns exceptions into what callers can read. ``notifications`` are sent
by a thread of their own, and ``payloads`` makes their bodies. ``explain`` sends and answers questions about
decisions, on a topic of its own; commands ask them by ``command_transport``. oslo.messaging does the
messaging itself (spec: wire-and-config 1, 2, 4, 5).
"""
