"""What operators and their tools see of a running daemon: health checks, metrics, the watchdog.

::

    worker 0 ─┐  reports: counts, ages, progress                ┌─▶ /metrics
    worker 1 ─┼─────────────────────────────▶ monitor (master) ─┼─▶ /healthz, /readyz
    worker n ─┘  one datagram a second                          └─▶ systemd

The master has the totals: they do not depend on any worker, and a worker that hangs delays no answer.

=============  ========================================================================================
module         what it has
=============  ========================================================================================
catalogue      all metrics: name, type, labels, buckets, help
counters       counting in a worker, the totals in the master, and why no library does that
decisions      what the record of a decision adds to the counters
reports        what workers tell the master, and the channel for it
reporter       the thread of a worker that reports
supervision    what the master knows of its workers, and which of them hang
readiness      the documents of /healthz and /readyz
exposition     the text of /metrics
address        where to listen
access         what a client of another machine has to show
endpoint       the HTTP server
systemd        notifications to systemd
monitor        the master's part: puts the others together
=============  ========================================================================================
"""
