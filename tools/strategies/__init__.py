"""Several schedulers in simulated time, to compare the ways in which they can keep out of each other's way.

The decisions are made by Berth's own code: filters, weighers, ranking, claiming, pending placements, shared
decisions, membership and slices. Models stand in for Placement, the computes, the stream and time.

- events: simulated time
- scenario: what is simulated, and the strategies that are compared
- cloud: hosts, Placement and the reports of computes
- stream: the decision stream between schedulers
- scheduler: one scheduler
- run: one run and what came of it
- command, report, plot: the command line, its table and its picture
"""
