"""Claims, fences and releases: policies over the one writer of allocations.

- claims: the claims, fences and releases of a process
- session: the claims of a request, until the outcome of its reply
- checks: what is looked at after a claim: capacity, and the policy of a server group
- doubts: what could not be settled yet
"""
