"""Plans: the decision core, run many times on a snapshot of the cloud. Nothing is written.

- snapshot: a cloud as nova's databases and Placement have it; stored_requests: the requests of its instances
- cloud: the snapshot as a plan changes it; reasons: how many hosts each step of a decision left
- moves: instances that go to other hosts, one after the other
- drain: emptying hosts; survive: losing hosts; balance: moves that improve weights
- capacity: how many more instances fit; forecast: until when; textfile: the same for node-exporter
- policy: what other options would change
- requests, hints: requests that arguments describe; dry_run: deciding one without a claim
- page: a plan as an HTML page with pictures (templates/plan.html)
"""
