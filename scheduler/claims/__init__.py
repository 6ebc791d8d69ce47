"""Writing to Placement: claims, and giving them back.

- claim_session: the claims of one request
- claimer: the claims of a process
- claim: which write follows what became of the last one; claim_request: what is to be claimed
- fence: what the instances of a request hold already is written once more, all or none
- capacity: whether overlapping claims of several processes were too many for a provider
- parts: what all claims of a process work with
- policy: the bounds of claims, with the reasons for their values
- result: what the caller of a claim is told
- observers: who is told what becomes of claims
- cleanup: giving claims back, in the background if Placement does not answer
- late_writes: writes without a response that come after the reply, once the instance is deleted
- held: what instances hold already, and as a candidate for a redelivered request
- recorded_writes: what the journal records of claims and writes
- journal: claims whose request is not over yet, in files that outlive the process; journal_page: those of one
  process; message_records: which messages it runs and answers; page_file: the SQLite file of both
"""
