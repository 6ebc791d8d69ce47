"""The steps of a request, from a SchedulingRequest to its reply (spec: placement-and-workflow 5.2).

- request_run: the order of the steps
- candidate_hosts: which hosts a request is decided among
- callers: whether somebody still waits for it
- held_hosts: what its instances hold already
- claim_sessions: how it claims
"""
