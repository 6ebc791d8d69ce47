"""``berth-plan``: the decision core, run many times on a snapshot of the cloud. Nothing is written.

- command: what its commands have in common
- drain, survive, balance, policy, capacity, dry_run: a question with its arguments, document and words
- movable: what nova moves and evacuates; moves: instances that go to other hosts, one after the other
- fits: how many more instances of a request fit on each host; losing: losing hosts
"""
