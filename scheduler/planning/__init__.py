"""Questions about now and tomorrow: the decision core, run many times on a snapshot. Nothing is written.

- snapshot: a cloud as nova's databases and Placement have it; stored_requests: the requests of its instances
- cloud: the snapshot as a plan changes it; reasons: what each step of a decision left
- moves: instances that leave their hosts
- drain: hosts that are to be empty
"""
