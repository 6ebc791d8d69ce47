"""Asking Placement which hosts could take a request (spec: placement-and-workflow 2, 3).

- session, client, reply, errors, transport_errors: HTTP, and what a failure means
- candidates, answer: allocation candidates
- mirror, mirror_source: candidates without a query for each request, and keeping them true
- coalescing: equal queries that wait at the same time share a GET
- provider_aggregates: the aggregates of a provider
"""
