"""The steps of a request, from a SchedulingRequest to its reply (spec: placement-and-workflow 5.2).

- request_run: the order of the steps
- recovery: what comes before and after them if others may write for the same instances
- steps: what takes them
- candidate_hosts: which hosts a request is decided among
- callers: whether somebody still waits for it
- held_hosts: what its instances hold already
- claiming: how it claims
"""
