"""The steps of a request, from a SchedulingRequest to its reply (spec: placement-and-workflow 5.2).

- run: a request from its queries to its reply
- decide: one decision, from the queries to the hosts and alternates, in whatever world
- world: what the decisions of a manager read, and what claims for them
- candidate_hosts: which hosts a request is decided among
- past: what comes before and after the decision if others may write for the same instances
"""
