"""The steps of a request, from a SchedulingRequest to its reply (spec: placement-and-workflow 5.2).

- decide: one decision, from the queries to the hosts and alternates, in whatever world
- live_world: what the decisions of a manager read
- host_now: a decision on one host as of now, as far as the filters
- request_run: a request from its queries to its reply
- recovery: what comes before and after them if others may write for the same instances
- steps: what takes them
- candidate_hosts: which hosts a request is decided among
- callers: whether somebody still waits for it
- held_hosts: what its instances hold already
- claiming: how it claims
"""
