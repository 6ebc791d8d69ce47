"""[berth]: options that nova-scheduler does not have."""

from oslo_config import cfg

GROUP = "berth"

OPTS = [
    cfg.FloatOpt(
        "host_state_max_age",
        min=0.0,
        mutable=True,
        help="Maximum age, in seconds, of the host data that a request uses, as of its arrival. 0: the "
        "databases are read after the request has arrived. Not set: 1, and 0 for requests for which "
        "Placement is asked, as the databases are read at the same time. Requests that move an instance have "
        "0 in any case, and no request fails with older data. Capacity is checked by Placement anyway.",
    ),
    cfg.FloatOpt(
        "cell_timeout",
        default=10.0,
        min=0.1,
        mutable=True,
        help="Timeout in seconds for the database of a cell. A request continues without the hosts of a cell "
        "that takes longer.",
    ),
    cfg.FloatOpt(
        "outage_patience",
        default=60.0,
        min=0.0,
        mutable=True,
        help="Seconds for which requests wait while Placement or Keystone is unavailable or refuses this "
        "scheduler, or while the databases of all cells that they need are unavailable. Their callers get "
        "heartbeats meanwhile. After this time, or when the caller stops waiting, a request is answered with "
        "an error that names the dependency and is not NoValidHost. While another scheduler can decide "
        "requests, this one takes none and returns those that wait. 0: requests do not wait.",
    ),
    cfg.FloatOpt(
        "unread_cell_max_age",
        default=600.0,
        min=0.0,
        mutable=True,
        help="Seconds for which the hosts of a cell whose database cannot be read are still used as last "
        "known, where Placement offers them. Their services count as alive if they were alive when they were "
        "last read. After this time a request that needs these hosts is answered with an error that names "
        "the cell.",
    ),
    cfg.FloatOpt(
        "aggregate_refresh_interval",
        default=60.0,
        min=1.0,
        mutable=True,
        help="Seconds between two complete reads of the host aggregates. Changes arrive by message; the "
        "complete read corrects what a lost message left wrong.",
    ),
    cfg.IntOpt(
        "overlapping_claims",
        default=8,
        min=0,
        mutable=True,
        help="Claims that leave a host less room than this number of instances of the same size would need "
        "are checked once they are granted, and given back if the host is over its capacity: Placement can "
        "grant two claims of different processes that overlap and do not fit together. A check costs two "
        "small requests to Placement. A single scheduler checks too: conductors claim alternates. 0: nothing "
        "is checked; choose it if [placement] allocation_conflict_retry_count of Placement is 1.",
    ),
    cfg.FloatOpt(
        "mirror_interval",
        default=8.0,
        min=1.0,
        mutable=True,
        help="Seconds between two comparisons with Placement's list of resource providers while requests "
        "come. Providers that have changed are read again, so new hosts and hosts with more room are known "
        "after this time. A chosen host is checked in Placement before it is claimed in any case. The list "
        "costs Placement 0.3 seconds of CPU for 10,000 hosts. A list that takes longer than a twentieth of "
        "this time is read more rarely.",
    ),
    cfg.BoolOpt(
        "decision_stream",
        default=True,
        help="Share decisions with the other schedulers of the cloud, through the stream berth.decisions on "
        "the broker of [DEFAULT]/transport_url (RabbitMQ 3.9 or later). Schedulers, and workers of one "
        "scheduler, then take each other's decisions into account before computes have reported them. "
        "Without the stream requests are served as by a single scheduler.",
    ),
    cfg.FloatOpt(
        "decision_stream_start_timeout",
        default=30.0,
        min=0.0,
        max=600.0,
        help="Seconds that a starting worker waits, before its first request, until it has read what other "
        "schedulers decided in the last minutes. After this time it serves without.",
    ),
    cfg.BoolOpt(
        "owned_slices",
        default=True,
        mutable=True,
        help="Divide the hosts between the schedulers that are alive: each prefers the hosts that it owns "
        "and takes others if none of these will do, so that two schedulers do not choose one host at the "
        "same time. Server groups and creations of many instances consider all hosts alike. Without "
        "effect while a single worker is alive.",
    ),
    cfg.StrOpt(
        "partition",
        help="The partition that this scheduler serves: the NAME of a group [berth_partition_NAME]. It reads "
        "only the hosts of this partition, and takes the requests that berth-router calls it for. Not set: "
        "it serves all hosts.",
    ),
    cfg.BoolOpt(
        "forward_server_groups",
        default=True,
        mutable=True,
        help="Let one of the schedulers that are alive decide for each server group: the others send its "
        "requests on to that one, which answers them. Members of a group that are requested from several "
        "schedulers at the same time are then placed by one of them. A request that the other scheduler does "
        "not take within ten seconds comes back. Without effect while a single worker is alive, and without "
        "the decision stream.",
    ),
    cfg.IntOpt(
        "decision_records",
        default=1000,
        min=0,
        mutable=True,
        help="Number of decisions that each worker keeps in memory for explanations. 0: none.",
    ),
    cfg.IntOpt(
        "decision_memory",
        default=64,
        min=0,
        mutable=True,
        help="MiB of memory that the kept decisions of a worker may take; the oldest are dropped first. A "
        "request that is served takes about 5 KiB, one that failed also 40 bytes for each host that was "
        "offered.",
    ),
    cfg.StrOpt(
        "decision_log",
        help="Directory to which each worker writes its decisions, one JSON object a line. It must exist and "
        "be writable. Not set: decisions are in memory only.",
    ),
    cfg.IntOpt(
        "decision_log_size",
        default=64,
        min=1,
        help="MiB after which a worker begins the next file of the decision log.",
    ),
    cfg.FloatOpt(
        "decision_log_days",
        default=7.0,
        min=0.01,
        help="Days after which a worker begins the next file of the decision log, and files to which nothing "
        "was written for so long are removed.",
    ),
    cfg.BoolOpt(
        "explain_no_valid_host",
        default=False,
        mutable=True,
        help="Append to the reason of a NoValidHost what left no host, in one line. It names hosts and "
        "rules, and users of the cloud can see it in the fault of their instance. The line is in the log in "
        "any case.",
    ),
    cfg.BoolOpt(
        "analyse_empty_answers",
        default=True,
        mutable=True,
        help="Find out, after a request for which Placement offered no host, which of its constraints left "
        "none: its query is sent again as it was, then without one of them, or without two. At most one "
        "query is analysed every 10 seconds. Nothing is analysed while Placement is unavailable, and the "
        "analysis stops as soon as one response takes longer than 5 seconds.",
    ),
    cfg.FloatOpt(
        "database_start_timeout",
        default=60.0,
        min=0.0,
        help="Seconds that a starting worker waits for the API database. It takes no requests, and systemd "
        "is not told that the daemon is ready, before the database has been read once. After this time the "
        "daemon exits with status 3.",
    ),
    cfg.IntOpt(
        "largest_message",
        default=16 << 20,
        min=64 << 10,
        help="Size in bytes of the largest reply: the max_message_size of RabbitMQ, which is 16 MiB by "
        "default from RabbitMQ 4.0 on. A request for more instances than fit into such a reply is refused "
        "before anything is claimed; with two alternates an instance needs about 3.5 kB.",
    ),
    cfg.IntOpt(
        "consumer_priority",
        default=0,
        min=-100,
        max=100,
        help="Priority at the broker among all schedulers of the topic. Requests go to those with the "
        "highest priority, as long as these can receive; to all of them in turn if it is equal. "
        "nova-scheduler has 0. With 1, a nova-scheduler that runs beside Berth gets no more requests, and "
        "can be stopped while instances are built.",
    ),
    cfg.FloatOpt(
        "ready_timeout",
        default=60.0,
        min=0.0,
        help="Seconds to wait at start, once the API database has been read, for all workers to take "
        "requests. After this time systemd is told in any case that the daemon is ready. While RabbitMQ is "
        "away the daemon keeps running and reconnects.",
    ),
    cfg.StrOpt(
        "monitoring_listen",
        help="Where health checks (/healthz, /readyz) and metrics (/metrics) are served over HTTP: an "
        "address and a port, such as 127.0.0.1:9812, or unix: and an absolute path, such as "
        "unix:/run/berth/monitoring.sock. An address that other machines reach needs "
        "monitoring_cert_file, and monitoring_token_file or monitoring_client_ca_file. Not set: nowhere.",
    ),
    cfg.StrOpt(
        "monitoring_cert_file",
        help="PEM file with the certificate of monitoring_listen. Set: it is served over HTTPS.",
    ),
    cfg.StrOpt(
        "monitoring_key_file",
        help="PEM file with the key of monitoring_cert_file. Not set: the key is in that file.",
    ),
    cfg.StrOpt(
        "monitoring_client_ca_file",
        help="PEM file with the authority that signs the certificates of clients of monitoring_listen. Set: "
        "a client without such a certificate is refused.",
    ),
    cfg.StrOpt(
        "monitoring_token_file",
        help="File with the token that clients of monitoring_listen send, as 'Authorization: Bearer'. It is "
        "read for each request, so that it can be replaced at any time.",
    ),
    cfg.FloatOpt(
        "worker_timeout",
        default=120.0,
        min=0.0,
        mutable=True,
        help="Seconds without progress after which a worker is killed and started again: it does not run, "
        "its host table is not refreshed, or messages wait for a thread while none is begun or finished "
        "and no claim has an event. Its requests are delivered to other workers. 0: never.",
    ),
]
