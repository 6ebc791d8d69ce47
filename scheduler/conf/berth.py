"""[berth]: what nova-scheduler has no option for."""

from oslo_config import cfg

GROUP = "berth"

OPTS = [
    cfg.FloatOpt(
        "host_state_max_age",
        default=1.0,
        min=0.0,
        mutable=True,
        help="Age in seconds up to which what is known of hosts is used without reading the databases again. "
        "0: they are read before each request. Placement has the last word on capacity whatever this is.",
    ),
    cfg.FloatOpt(
        "cell_timeout",
        default=10.0,
        min=0.1,
        mutable=True,
        help="Seconds that the database of a cell may take. A request goes on without the hosts of a cell "
        "that takes longer.",
    ),
    cfg.FloatOpt(
        "aggregate_refresh_interval",
        default=60.0,
        min=1.0,
        mutable=True,
        help="Seconds between full readings of the host aggregates. Changes arrive by message; this only "
        "mends what a lost message left wrong.",
    ),
    cfg.IntOpt(
        "searches_at_once",
        default=2,
        min=1,
        help="Different searches for allocation candidates that a worker has Placement do at once; equal "
        "ones share one in any case. Each keeps a processor of Placement busy, and while a search waits, "
        "later requests can join it. More pays where Placement has processors to spare.",
    ),
    cfg.FloatOpt(
        "database_start_timeout",
        default=60.0,
        min=0.0,
        help="Seconds that a starting worker waits for the API database. It takes no requests, and systemd "
        "is not told that the daemon is ready, before the database has been read once. After this time the "
        "daemon exits with status 3.",
    ),
    cfg.FloatOpt(
        "ready_timeout",
        default=60.0,
        min=0.0,
        help="Seconds to wait at start, once the API database has been read, for all workers to take "
        "requests. After this time systemd is told in any case that the daemon is ready. While RabbitMQ is "
        "away the daemon keeps running and reconnects.",
    ),
]
