"""All metrics: the reference for operators, dashboards and alert rules is made of this table."""

from dataclasses import dataclass

from scheduler.decisions.cause_code import CauseCode

#: Upper bounds of the buckets of durations, in seconds.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)

#: Upper bounds of the buckets of numbers of hosts.
HOSTS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0, 30000.0)

#: Upper bounds of the buckets of tries of a claim.
TRIES = (1.0, 2.0, 3.0, 5.0, 10.0)

OUTCOMES = ("placed", "no_valid_host", "outage", "invalid", "returned", "error")
STAGES = ("queue", "outage", "query", "placement", "mirror", "table", "held", "selection", "claims", "failed")
SOURCES = ("placement", "mirror", "table", "held")
ANSWERS = ("own", "shared", "mirror", "table", "held", "failed")
CLAIM_OUTCOMES = ("granted", "next_host", "given_up")
CAPACITY_RESULTS = ("within", "over")
DEPENDENCIES = ("broker", "api_database", "placement", "decision_stream")
RELOADS = ("accepted", "refused")


@dataclass(frozen=True)
class MetricEntry:
    """One metric.

    Attributes:
        name: Its name, without the suffix that Prometheus adds to a counter.
        kind: ``counter``, ``gauge`` or ``histogram``.
        help: What it says, in one sentence.
        labels: The names of its labels.
        values: The values of its one label that are shown as 0 before they occur.
        buckets: Upper bounds, for a histogram.
    """

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def series(self) -> str:
        """The name under which a query finds it."""
        return f"{self.name}_total" if self.kind == "counter" else self.name


REQUESTS = MetricEntry(
    "berth_requests",
    "counter",
    "Requests that ended, by outcome: placed, no_valid_host, outage (a dependency was unavailable for longer "
    "than requests wait), invalid, returned (to the broker, for another scheduler), error.",
    ("outcome",),
    OUTCOMES,
)
NO_VALID_HOST = MetricEntry(
    "berth_no_valid_host",
    "counter",
    "Requests that found no valid host, by cause.",
    ("cause",),
    tuple(CauseCode),
)
INSTANCES = MetricEntry(
    "berth_instances", "counter", "Instances of the requests that ended, by outcome.", ("outcome",), OUTCOMES
)
REQUEST_SECONDS = MetricEntry(
    "berth_request_duration_seconds",
    "histogram",
    "Time from the begin of a request to its decision, without the wait for a free thread.",
    buckets=SECONDS,
)
STAGE_SECONDS = MetricEntry(
    "berth_stage_duration_seconds",
    "histogram",
    "Time that a request spent in one stage; queue is the wait for a free thread, outage for a dependency.",
    ("stage",),
    STAGES,
    SECONDS,
)
CANDIDATES = MetricEntry(
    "berth_candidates",
    "histogram",
    "Compute nodes that a request was offered, by where they came from.",
    ("source",),
    SOURCES,
    HOSTS,
)
FILTERED = MetricEntry("berth_hosts_filtered", "counter", "Hosts that a filter rejected.", ("filter",))
ANSWERED = MetricEntry(
    "berth_candidate_answers",
    "counter",
    "How requests got their candidates: by a query of their own, by one that other requests shared, from the "
    "mirror, from the host table (rebuild checks), from what redelivered instances hold, or not (failed: "
    "Placement was unavailable or refused; a request that waits for it is counted once, as it ends).",
    ("answer",),
    ANSWERS,
)
CLAIMS = MetricEntry(
    "berth_claims",
    "counter",
    "Claims that ended, by outcome: granted, next_host (refused, another host is tried), given_up.",
    ("outcome",),
    CLAIM_OUTCOMES,
)
CLAIM_TRIES = MetricEntry(
    "berth_claim_tries", "histogram", "Tries that a claim needed until its end.", (), (), TRIES
)
CAPACITY_CHECKS = MetricEntry(
    "berth_capacity_checks",
    "counter",
    "Granted claims that left a host little room and were checked, by result: within (its capacity), over "
    "(overlapping claims of several processes were too many, and the claim was released).",
    ("result",),
    CAPACITY_RESULTS,
)
REFUSED = MetricEntry(
    "berth_messages_refused", "counter", "Messages that could not be read and were answered with an error."
)
UNDELIVERED = MetricEntry(
    "berth_replies_undelivered",
    "counter",
    "Replies that the broker did not take, or whose caller has timed out: their claims are released; or "
    "that the broker did not confirm: their claims are kept.",
)
DROPPED = MetricEntry(
    "berth_calls_dropped",
    "counter",
    "Calls that were not served, as nobody waited for their instances any more.",
)

IN_FLIGHT = MetricEntry("berth_requests_in_flight", "gauge", "Messages that threads handle.")
UNANSWERED = MetricEntry(
    "berth_calls_unanswered",
    "gauge",
    "Calls that were received and not answered yet, those that wait for a thread included.",
)
WAITING = MetricEntry("berth_requests_waiting", "gauge", "Requests that wait for the end of an outage.")
PENDING = MetricEntry("berth_pending_placements", "gauge", "Placements that no compute has reported yet.")
CLEANUPS = MetricEntry(
    "berth_pending_cleanups",
    "gauge",
    "Instances in doubt that could not be settled yet: a claim is not released, or nova does not answer.",
)
COMPUTE_NODES = MetricEntry("berth_compute_nodes", "gauge", "Compute nodes in the host table.")
CELL_AGE = MetricEntry(
    "berth_cell_age_seconds",
    "gauge",
    "Time since the rows of a cell were read; absent for a cell that was never read.",
    ("cell",),
)
MIRROR_AGE = MetricEntry(
    "berth_mirror_age_seconds",
    "gauge",
    "Time since the last refresh of the mirror of Placement began; up to ten minutes while no scheduler gets "
    "requests.",
)
DEPENDENCY_UP = MetricEntry(
    "berth_dependency_up",
    "gauge",
    "1 if the broker, the API database, Placement or the decision stream answered when it was last used, "
    "0 if not; absent if it was not used yet.",
    ("dependency",),
)
SCHEDULERS = MetricEntry(
    "berth_schedulers",
    "gauge",
    "Schedulers that are alive and share their decisions, as far as this one knows.",
)
SERVING = MetricEntry("berth_serving", "gauge", "1 if the daemon takes requests, 0 while it starts or stops.")
RELOADED = MetricEntry(
    "berth_reloads", "counter", "Changes of the configuration on SIGHUP, by result.", ("result",), RELOADS
)
BUILD = MetricEntry("berth_build_info", "gauge", "1; its label has the version.", ("version",))

METRICS = tuple(each for each in tuple(vars().values()) if isinstance(each, MetricEntry))
"""All of them, in the order of this file."""
