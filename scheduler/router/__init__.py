"""berth-router: takes the requests of all partitions, and calls their schedulers.

::

    caller ──▶ topic of all schedulers ──▶ router ──▶ topic of the first partition ──▶ one of its schedulers
      ▲                                      │  ◀── no host ──────────────────────────────┘
      └──────────────── reply ───────────────┴──▶ topic of the next partition ──▶ ...

- routing: which partitions, and in which order
- proxy: one request and its way
- presence: which partitions answer
- service: the process: what the daemon runs in the place of a scheduler
"""
