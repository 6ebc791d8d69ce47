"""[DEFAULT]: identity, liveness, fallback ratios, process life (spec: wire-and-config 6.2)."""

from oslo_config import cfg

from scheduler.conf.kinds import mutable_int

GROUP = None

RATIOS = ("cpu", "ram", "disk")


def _ratio(name: str, default: float | None = None) -> cfg.Opt:
    resource = name.removeprefix("initial_").partition("_")[0]
    unset = f", if {name.removeprefix('initial_')} is not set" if default else ""
    return cfg.FloatOpt(
        name,
        default=default,
        min=0.0,
        help=f"{resource.upper()} allocation ratio of a host whose own record has no ratio or 0{unset}.",
    )


OPTS = [
    cfg.HostDomainOpt(
        "host",
        sample_default="<the machine's host name>",
        help="Name of this scheduler: the server name of its RPC queue, the host of its row in the services "
        "table and the publisher of its notifications. When replacing a nova-scheduler, keep its "
        "value: the daemon then continues with its queue and row.",
    ),
    cfg.StrOpt(
        "my_ip",
        sample_default="<the machine's IPv4 address>",
        help="Address of this machine. Used only as $my_ip in other values.",
    ),
    cfg.StrOpt(
        "pybasedir",
        sample_default="<installation directory>",
        help="Directory of the installed code. Used only as $pybasedir in other values.",
    ),
    cfg.StrOpt(
        "state_path",
        default="$pybasedir",
        help="Directory for state of the commands that outlives them, and $state_path in other values. The "
        "daemon keeps nothing there.",
    ),
    cfg.StrOpt(
        "tempdir",
        help="Directory for temporary files. The daemon does not start if it cannot create one there. Not "
        "set: the default of the system.",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        help="Seconds between heartbeats of the service row. 0: no heartbeats.",
    ),
    mutable_int(
        "service_down_time",
        default=60,
        help="Seconds without a heartbeat after which a service counts as down. A value not above "
        "report_interval is replaced by two and a half report intervals.",
    ),
    cfg.StrOpt(
        "servicegroup_driver",
        default="db",
        choices=[
            ("db", "by the heartbeats in the services table"),
            ("mc", "by keys in memcached: not supported, the daemon does not start"),
        ],
        help="How to determine whether a service is up. All services of a cloud must have the same value.",
    ),
    cfg.BoolOpt("periodic_enable", default=True, help="Run periodic tasks (host discovery)."),
    cfg.IntOpt(
        "periodic_fuzzy_delay",
        default=60,
        min=0,
        help="The first run of periodic tasks is delayed by a random time of up to this many seconds, so "
        "that daemons which are started together do not run them at the same time.",
    ),
    cfg.StrOpt(
        "default_availability_zone",
        default="nova",
        help="Availability zone of a host that is in no aggregate with an availability zone.",
    ),
    cfg.IntOpt(
        "manager_shutdown_timeout",
        default=160,
        min=0,
        help="Seconds that a stopping daemon waits for the requests in progress. Must not be greater than "
        "graceful_shutdown_timeout; if it is, ten seconds less than that timeout are used.",
    ),
    cfg.IntOpt(
        "long_rpc_timeout",
        default=1800,
        help="Seconds that a caller of the scheduler waits for the reply. After that time the daemon stops "
        "working on the request and removes its claims. 0: never.",
    ),
    *(_ratio(f"{resource}_allocation_ratio") for resource in RATIOS),
    _ratio("initial_cpu_allocation_ratio", 4.0),
    _ratio("initial_ram_allocation_ratio", 1.0),
    _ratio("initial_disk_allocation_ratio", 1.0),
]
