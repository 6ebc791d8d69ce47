"""Reading from Placement, and writing allocations (spec: placement-and-workflow 2-4).

- session, client, reply, errors: HTTP, and what a failure means
- candidates, answer: allocation candidates
- allocation_writer: the only place that writes allocations; write_queue: which writes are sent together
- writes: what consumers shall hold; outcomes: what can become of that, and what a response means
- write_policy: the bounds of writes; claim_events: what happened to a claim, try by try, and its log lines
- allocations: what consumers hold
- mirror, mirror_reader, mirror_source: candidates without a query for each request, and keeping them true
- mirror_lookups: what requests read for the mirror
- plain_query: which queries it answers; winner_check: reading what was chosen by it before it is claimed
- unit_limits: min_unit, max_unit and step_size of compute nodes, known by a few reads
- trees: whether other providers than compute nodes have what it mirrors
- providers, read_each: lists of providers, and reading single ones
- batching: equal queries that wait at the same time are sent once
- partition_members: whether Placement knows the hosts of a partition as members of its aggregates
"""
