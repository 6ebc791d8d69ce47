"""Claims, fences and releases: policies over the one writer of allocations.

- claim_session: claiming for one request, until the outcome of its reply
- claimer: the claims, fences and releases of a process
- claim: what is written for each instance, and what follows
- capacity: whether overlapping claims of several processes were too many for a provider
- group_policy: whether the members of a server group are where its policy allows
- result: what the caller of a claim receives
- observers: what receives the outcome of claims
- held: what instances hold already, as a candidate for a call with a past
- doubts: what could not be settled yet
- sweep: what builds hold that nova has given up
"""
