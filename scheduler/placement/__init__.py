"""Placement: who could have it, and who gets it. Spec: placement-and-workflow 2-4 and 6.

- session, client, reply, errors, throttle: HTTP, and what a failure means
- candidates, answer, sharing: which hosts could take a request; equal questions in flight share an answer
- claims: taking what was chosen, and giving it back
- attempt, batch: one claim to its end; many in one request
- consumers, verdict: the calls that write allocations, and what their answers mean
- outcome: what the caller of a claim is told
- release, undo: giving back, in the background if need be
- locks, orphans, patience: what claims keep in mind, and every bound on them
- journal, notes: claims that outlive the death of their worker
- provider_aggregates: for requests on routed networks
"""
