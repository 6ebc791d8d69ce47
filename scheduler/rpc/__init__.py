"""The RPC interface of the scheduler on the message bus: the life of a call.

::

    consumer ──▶ server.serve ──▶ methods ──▶ scheduler_endpoint ──▶ manager
    receives     │                 a value: a result, an error, or neither
       ▲         ▼
       │      the reply, confirmed by the broker (bus)
       │         │
       └─────────┴── calls.Event: what becomes of the message and of the claims

    keepalive    all calls that are not answered: heartbeats to their callers, and replies that nobody reads

==============================================  ==================  =========================
how a run ends (``calls.Event``)                the message         the claims
==============================================  ==================  =========================
the reply is confirmed                          is acknowledged     are kept
an error is replied                             is acknowledged     were released before that
the reply is not confirmed                      is requeued         are left to the next run
nobody reads the reply queue                    waits for a minute  are held, then released
the broker never takes the reply                is acknowledged     are released
the process stops, or another one can decide    is requeued         were released before that
the channel was lost                            comes again         are left to the next run
==============================================  ==================  =========================

State is in four places: the broker has the call until it is acknowledged, Placement the claim and its
generation, nova whether a caller waits, and memory what is open.

- consumer: reads and acknowledges; its thread alone touches the channel
- wire, serializer, context: requests and replies as they are sent
- calls: the states of a call, and its ends
- server: threads, and the whole life of a call
- methods: by name what is called, and what callers get for errors; ``errors``
- scheduler_endpoint, checks: nova's methods and their arguments
- keepalive: the one store of open calls, and what they get without a thread
- bus: sends until the broker has confirmed it. ``transport``: which bus, and what it refuses
- library: all that is private in oslo.messaging
- explain: questions about decisions
- notifications, payloads: what nova-scheduler announces
- client: calls of a router to schedulers

(spec: wire-and-config 1, 2, 4, 5)
"""
