"""Questions about now and tomorrow: the decision core, run many times on a snapshot. Nothing is written.

- snapshot: a cloud as nova's databases and Placement have it; stored_requests: the requests of its instances
- cloud: the snapshot as a plan changes it; reasons: what each step of a decision left
- moves: instances that go to other hosts, one after the other
- drain: hosts that are to be empty; survive: hosts that fail; balance: moves that help
- capacity: how many more instances fit; forecast: until when; textfile: the same for node-exporter
- policy: what other options would change
- requests, hints: requests of what somebody describes; dry_run: what would happen to one
- page: a plan as an HTML page with pictures (templates/plan.html)
"""
