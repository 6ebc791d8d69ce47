"""The scheduler on the message bus: what conductors, computes and the API see of it.

::

    transport ── server ── serializer ── endpoints ── manager
                   │        (context,     (check the
               heartbeats    objects)      arguments)

``context`` is who asks, ``checks`` what arguments have to be, ``errors`` how errors are to look.
``notifications`` go out beside all this, in the forms of ``legacy_payload`` and ``versioned_payload``.

The bus itself is oslo.messaging's work (spec: wire-and-config 1, 2, 4, 5).
"""
