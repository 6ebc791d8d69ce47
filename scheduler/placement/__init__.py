"""Asking Placement which hosts could take a request (spec: placement-and-workflow 2, 3).

- session, client, reply, errors, transport_errors: HTTP, and what a failure means
- candidates, answer: allocation candidates
- mirror, mirror_source: candidates without a query for each request, and keeping them true
- plain_query: which queries it answers; winner_check: reading what was chosen by it before it is claimed
- trees: whether other providers than compute nodes have what it mirrors
- providers, read_each: lists of providers, and reading single ones
- batching: equal queries that wait at the same time are sent once
- provider_aggregates: the aggregates of a provider
- partition_members: whether Placement knows the hosts of a partition as members of its aggregates
"""
