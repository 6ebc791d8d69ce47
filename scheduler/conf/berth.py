"""[berth]: options that nova-scheduler does not have."""

from oslo_config import cfg, types

from scheduler.conf.kinds import mutable_float, mutable_int

GROUP = "berth"

#: Values of ``explain_no_valid_host`` that append something.
EXPLAIN_CODE, EXPLAIN_FULL = "code", ("full", "true")

OPTS = [
    mutable_float(
        "host_state_max_age",
        min=0.0,
        help="Maximum age in seconds, at the arrival of a request, of the host data that the request uses. "
        "Raise it when reading the hosts loads the databases. 0: the databases are read after each request "
        "arrived. Not set: 1, and 0 for requests that query Placement, as both are read at the same time. "
        "Moves always use 0. Placement checks the capacity in any case.",
    ),
    mutable_float(
        "cell_timeout",
        default=10.0,
        min=0.1,
        help="Timeout in seconds for a query to the database of a cell. A request continues without the "
        "hosts of a cell that takes longer. Raise it when a database is slow at times, and lower it when "
        "requests have to be fast although a cell is slow.",
    ),
    mutable_float(
        "outage_patience",
        default=60.0,
        min=0.0,
        help="Seconds that requests wait while Placement or Keystone is unavailable or rejects this "
        "scheduler, or while the databases of all cells that they need are unavailable. Their callers get "
        "heartbeats. After this time a request fails with an error that names the dependency. Raise it to "
        "the length of your failovers; it has no effect beyond long_rpc_timeout of the callers. 0: "
        "requests fail at once. Requests that another scheduler can decide are left to it.",
    ),
    mutable_float(
        "unread_cell_max_age",
        default=600.0,
        min=0.0,
        help="Seconds that the hosts of a cell are used as last known while its database cannot be read. "
        "After this time a request that needs these hosts fails with an error that names the cell. Raise "
        "it to build during longer outages of a database; lower it if computes fail together with their "
        "database.",
    ),
    mutable_int(
        "overlapping_claims",
        default=8,
        min=0,
        help="Placement can grant two claims of different processes at the same time that do not fit on "
        "the host together. A claim that leaves room for fewer than this number of instances of the same "
        "size is therefore checked after it was granted, and released if the host is over its capacity. A "
        "check costs Placement two small requests. Set 0 (nothing is checked) if "
        "allocation_conflict_retry_count in placement.conf is 1. Raise it if the audit finds hosts over "
        "their capacity.",
    ),
    mutable_float(
        "mirror_interval",
        default=8.0,
        min=1.0,
        help="Seconds between two comparisons of the mirror with Placement's list of resource providers "
        "while requests come: the time until new hosts and freed capacity are known. Lower it when many "
        "claims are refused as changed; raise it when the list loads Placement (0.3 seconds of CPU for "
        "10,000 hosts). A list that takes longer than a twentieth of this time is read less often.",
    ),
    cfg.BoolOpt(
        "decision_stream",
        default=True,
        help="Share decisions with the other schedulers through the stream berth.decisions on "
        "the broker of [DEFAULT]/transport_url (RabbitMQ 3.9 or later), so that each knows what the others "
        "placed before computes report it. Set it to false on a broker without streams, to avoid the "
        "attempts to connect.",
    ),
    cfg.StrOpt(
        "partition",
        help="The partition that this scheduler serves: the NAME of a group [berth_partition_NAME]. It "
        "reads only the hosts of this partition and takes the requests that berth-router forwards to it. "
        "Set it when one scheduler for all hosts is too slow. Not set: it serves all hosts.",
    ),
    cfg.StrOpt(
        "decision_log",
        help="Directory to which each scheduler writes its decisions, one JSON object a line, in files of up "
        "to 64 MiB. Set it to explain decisions of past days and after restarts. It must exist and be "
        "writable. Not set: decisions are in memory only.",
    ),
    cfg.FloatOpt(
        "decision_log_days",
        default=7.0,
        min=0.01,
        help="Days that files of decision_log are kept. Lower it if the disk is small. A scheduler begins a "
        "file at least this often, and removes files to which nothing was written for this time.",
    ),
    cfg.Opt(
        "explain_no_valid_host",
        type=types.String(choices=["off", EXPLAIN_CODE, "full", "false", "true"], ignore_case=True),
        default="off",
        mutable=True,
        help="Append the cause to the reason of a NoValidHost, which users see in the fault of their "
        "instance. off: nothing, as nova. code: the code of the cause, such as 'Cause: resources', which "
        "names no host and no rule. full: one line that says what left no host; it names hosts and rules. "
        "The log has the line in any case. false and true are older words for off and full.",
    ),
    cfg.FloatOpt(
        "database_start_timeout",
        default=60.0,
        min=0.0,
        help="Seconds that a starting daemon waits for the API database before it exits with status 3. "
        "systemd is notified that the daemon is ready when it takes requests, or as many "
        "seconds after the database was read, so that an unavailable broker does not fail the start. Raise "
        "it, and TimeoutStartSec of the unit, if the databases start later than the scheduler.",
    ),
    cfg.IntOpt(
        "largest_message",
        default=16 << 20,
        min=64 << 10,
        help="Size in bytes of the largest reply: max_message_size of RabbitMQ, 16 MiB by default from "
        "RabbitMQ 4.0 on. A request for more instances than fit into such a reply is rejected before "
        "anything is claimed; an instance with two alternates needs about 3.5 kB. Change it together with "
        "the broker's.",
    ),
    cfg.IntOpt(
        "consumer_priority",
        default=0,
        min=-100,
        max=100,
        help="Priority at the broker among all schedulers of the topic. Requests go to the schedulers with "
        "the highest priority; of several schedulers of Berth with an equal one, to the first that can begin "
        "them. nova-scheduler has 0. Set 1 during a swap: then a nova-scheduler that is still running gets "
        "no requests and can be stopped while instances are built.",
    ),
    cfg.StrOpt(
        "monitoring_listen",
        help="Address on which health checks (/healthz, /readyz) and metrics (/metrics) are served over "
        "HTTP: an address and a port, such as 127.0.0.1:9812, or unix: and an absolute path, such as "
        "unix:/run/berth/monitoring.sock. An address that other machines reach needs monitoring_cert_file, "
        "and monitoring_token_file or monitoring_client_ca_file. Not set: they are not served.",
    ),
    cfg.StrOpt(
        "monitoring_cert_file",
        help="PEM file with the certificate of monitoring_listen. Set it to serve HTTPS.",
    ),
    cfg.StrOpt(
        "monitoring_key_file",
        help="PEM file with the key of monitoring_cert_file. Not set: the key is in that file.",
    ),
    cfg.StrOpt(
        "monitoring_client_ca_file",
        help="PEM file with the authority of client certificates. Set it to refuse clients of "
        "monitoring_listen that have no certificate of this authority.",
    ),
    cfg.StrOpt(
        "monitoring_token_file",
        help="File with the token that clients of monitoring_listen have to send as 'Authorization: "
        "Bearer'. It is read for each request, so the token can be replaced at any time.",
    ),
    mutable_float(
        "worker_timeout",
        default=120.0,
        min=0.0,
        help="Seconds without progress after which the daemon ends, to be started again: its threads do "
        "not run, its host table is not refreshed, or messages wait while none is begun or finished and no "
        "claim has an event. The stacks of its threads are written to standard error, and the broker "
        "redelivers its requests. Raise it if a filter of your own takes minutes. 0: never. The name is that "
        "of earlier versions, whose daemons had workers.",
    ),
]
