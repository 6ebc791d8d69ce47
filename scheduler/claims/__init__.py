"""Writing to Placement: claims, and giving them back.

- claim_session: the claims of one request
- claimer: the claims of a process
- claim: one claim as a state machine; batch: claims for many instances in one request to Placement
- confirmation: keeping what the instances of a request hold already, all or none
- capacity: whether overlapping claims of several processes were too many for a provider
- events: what happened to a claim, try by try, and its log lines
- group_commit: writes of concurrent requests that are sent together, in two lanes
- parts: what all claims of a process work with
- policy: every bound of a claim, with the reason for its value
- allocations_api, responses: the requests to Placement, and what its responses mean
- result: what the caller of a claim is told
- observers: who is told what becomes of claims
- cleanup: giving claims back, in the background if Placement does not answer
- late_writes: writes without a response that come after the reply, once the instance is deleted
- held: what instances hold already, and as a candidate for a redelivered request
- empty_consumers: consumers of which Placement has a record without allocations
- journal: claims whose request is not over yet, in files that outlive the process; journal_page: those of one
  process; message_records: which messages it runs and answers; page_file: the SQLite file of both
"""
