"""What operators and their tools see of a running daemon: health checks, metrics, the watchdog.

=============  ========================================================================================
module         what it has
=============  ========================================================================================
catalogue      all metrics: name, type, labels, buckets, help
counters       counting, and the gauges of /metrics
decisions      what the record of a decision adds to the counters
state          what a service shows
readiness      the documents of /healthz and /readyz
access         where to listen, and what a client of another machine has to show
endpoint       the HTTP server
systemd        notifications to systemd
monitor        puts the others together, and ends a process that hangs
=============  ========================================================================================
"""
