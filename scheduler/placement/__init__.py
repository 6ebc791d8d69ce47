"""Asking Placement which hosts could take a request (spec: placement-and-workflow 2, 3).

- session, client, reply, errors, transport_errors: HTTP, and what a failure means
- candidates, answer: allocation candidates
- mirror, mirror_source: candidates without a query for each request, and keeping them true; refresh_pace: how
  often that is done
- fresh: candidates by the cheapest queries that are sent after a request came
- provider_lists, provider_trees, provider_usage, list_costs, questions: what it is made of
- batching: queries that wait at the same time are sent together
- provider_aggregates: the aggregates of a provider
- partition_members: whether Placement knows the hosts of a partition as members of its aggregates
"""
