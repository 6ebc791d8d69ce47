"""Process life of the daemon: its start, its reload, its end (spec: wire-and-config 7).

A daemon is one process, with one manager and one RPC server. Several schedulers are several daemons: one
decides at a time, and the others are there for controllers that fail.

=======  ================================================================================================
signal   what the daemon does
=======  ================================================================================================
SIGTERM  stop consuming and claiming, finish the requests in progress or return them to the broker, exit 0
SIGINT   exit 1 at once
SIGHUP   take over changed options if the daemon could start with them; read cells and open connections
         again; requests continue
SIGUSR2  write a report
=======  ================================================================================================

======  =================================================================================================
status  of the daemon
======  =================================================================================================
0       stopped by SIGTERM
1       cannot start (the log says why), was interrupted, did not end in graceful_shutdown_timeout, or made
        no progress for [berth]/worker_timeout
2       unknown argument on the command line
3       the API database could not be read within [berth]/database_start_timeout
======  =================================================================================================

The threading backend of oslo.service forks, and ends its processes on SIGHUP. A SIGHUP must not interrupt
service, so the signals are handled in ``service``.

``service`` is the process, and what it is made of. ``options_trial`` tries changed options.
``guru_meditation`` has what is reported on SIGUSR2.
"""
