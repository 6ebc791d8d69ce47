"""``berth-plan``: the decision core, run many times on a snapshot of the cloud. Nothing is written.

- main: the program; command_base: what its commands have in common
- instance_commands: questions about instances that exist; request_commands: about requests that were not made
- reasons: why Placement does not offer hosts
- movable: what nova moves and evacuates; moves: instances that go to other hosts, one after the other
- script: moves as a shell script for the openstack client
- drain: emptying hosts; survive: losing hosts; failures: all kinds of losses
- balance: few moves towards a goal
- capacity: how many more instances fit; loss: after the loss of a host; capacities: the same for each flavor,
  and as metrics
- policy: what other options would change
- dry_run: deciding one request without a claim
- shown: what is shown of each kind of plan
"""
