"""Process life of the daemon: a master, its workers, what signals do to them (spec: wire-and-config 7).

::

    master ──fork──▶ worker 0 … n     each with its own manager and RPC server;
                                      worker 0 also sends the service heartbeats and does other periodic work

=======  ===============================================  ==============================================
signal   to the master                                    to a worker
=======  ===============================================  ==============================================
SIGTERM  the same to all workers, then exit 0             stop consuming and claiming, finish the requests
                                                          in progress or return them to the broker, exit 0
SIGINT   all exit 1 at once                               exit 1 at once
SIGHUP   try the changed options, take them over if a     take over what the master has accepted; read
         worker can start with them, the same to all      cells and open connections again; requests
         workers                                          continue
SIGUSR2  write a report                                   write a report
=======  ===============================================  ==============================================

======  ================================================================================================
status  of the daemon
======  ================================================================================================
0       stopped by SIGTERM
1       cannot start (the log says why), was interrupted, did not end in graceful_shutdown_timeout, or
        could start no process in place of a worker that had ended
2       unknown argument on the command line
3       the API database could not be read within [berth]/database_start_timeout
======  ================================================================================================

Each worker reports to the master once a second; what the master does with that is in ``scheduler/health``.

The threading backend of oslo.service is cotyledon in a wrapper that ends a worker on SIGHUP. A SIGHUP must
not interrupt service, so cotyledon is used without the wrapper.

``master`` is the first process, and ``worker`` each of those that it forks; ``shared_state`` is what they
share. ``forking`` starts the workers. ``parts`` is
what a worker is made of. ``options_trial`` tries changed options in a process of their own. ``process`` has
what each process sets for itself, ``guru_meditation`` what it reports on SIGUSR2.
"""
