"""The scheduler on the message bus: what conductors, computes and the API see of it.

::

    transport ── server ── serializer ── endpoints ── manager
                   │        (context,     (check the
               heartbeats    objects)      arguments)

The bus itself is oslo.messaging's work. Source: spec wire-and-config 1, 2, 4 and 5.
"""
