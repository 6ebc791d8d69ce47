"""Writing to Placement: claims, and giving them back.

- claim_session: the claims of one request
- claimer: the claims of a process
- claim, batch: one claim; claims for many instances in one call
- policy: every bound of a claim
- allocations_api, responses: the calls to Placement, and what its answers mean
- result: what the caller of a claim is told
- cleanup: giving claims back, in the background if it must be
- journal: claims whose request is not answered yet, in memory that outlives the process
"""
