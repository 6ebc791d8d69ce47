"""Several schedulers on one cloud in simulated time: what their ways to avoid each other are worth.

The decisions are Berth's own code; Placement, the computes, the stream and time are models.

- run: scenarios, strategies, one run, and the command
- scheduler: one scheduler
- cloud: the hosts; events: time; stream: what schedulers tell each other
"""
