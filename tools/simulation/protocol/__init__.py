"""The protocol of one record, as a model: the unacknowledged message and the generation in Placement.

It takes the place of the product's workers in a history (``tools/simulate --faults --protocol``): the rules
of recovery alone, over the same models of broker, Placement, databases and callers.

=============  ============================================================================================
``channel``    what a process sees of the broker: deliveries, acknowledgements, a channel that can be lost
``writing``    a write of allocations, sent again until its outcome is known; reads
``run``        one call, from its delivery to its reply
``spool``      what could not be settled on a bad day, and is settled later
``worker``     a process: receives calls, sends heartbeats, runs calls, works through its spool
=============  ============================================================================================
"""
