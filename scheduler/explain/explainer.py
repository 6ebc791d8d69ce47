"""Answers to questions about decisions, one at a time and with pauses, beside the work of a scheduler."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
import threading
import time
from typing import Any, Protocol

from oslo_config import cfg

from scheduler import objects
from scheduler.conf.changed import ChangedOptions, read_changes
from scheduler.errors import BerthError, InvalidRequest
from scheduler.explain.capacity import Offer, capacity
from scheduler.explain.comparison import RuleSet, compare
from scheduler.explain.document import entry
from scheduler.explain.explanation import DRY_RUN, Document, Names, explain, explain_host
from scheduler.explain.memory import DecisionMemory
from scheduler.explain.record import DecisionRecord
from scheduler.hosts.request_instances import InstanceSource
from scheduler.request.scheduling_request import RequestKind
from scheduler.rules.drivers import load_changed, load_rules

#: Seconds that a question waits for the one before it.
BUSY_TIMEOUT = 5.0

#: The longest pause in seconds between two pieces of an explanation.
LONGEST_PAUSE = 0.01

#: Entries of a list of decisions, and requests that are compared.
MOST_ENTRIES = 10_000
MOST_COMPARED = 1000


class Busy(BerthError):
    """Another question is being answered, and takes long."""


class DryRuns(Protocol):
    """Decides requests without effects."""

    def decide(self, context: Any, spec: objects.RequestSpec) -> DecisionRecord:
        """Return the record of what would be decided now."""

    def offer(self, context: Any, spec: objects.RequestSpec) -> Offer:
        """Return the same as ``decide``, with what Placement has left on all hosts."""


class Pace:
    """Pauses for as long as the work before each pause took: requests get half of the time at least."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Begin to work now."""
        self._clock = clock
        self._sleep = sleep
        self._since = clock()

    def __call__(self) -> None:
        """Pause, and go on to work."""
        self._sleep(min(LONGEST_PAUSE, max(0.0, self._clock() - self._since)))
        self._since = self._clock()


class Explainer:
    """Answers questions about the decisions of one worker. Any thread may use it."""

    def __init__(
        self,
        memory: DecisionMemory,
        names: Callable[[], Names],
        conf: cfg.ConfigOpts,
        dry_runs: DryRuns,
        instances: InstanceSource,
        busy_timeout: float = BUSY_TIMEOUT,
        pace: Callable[[], Callable[[], None]] = Pace,
    ) -> None:
        """Answer from the records of a worker.

        Args:
            memory: The latest records.
            names: Returns the names of cells and of the default zone.
            conf: The options in use.
            dry_runs: Decides requests without effects.
            instances: Where instances are.
            busy_timeout: Seconds that a question waits for the one before it.
            pace: Returns what is called between two pieces of an explanation.
        """
        self._memory = memory
        self._names = names
        self._conf = conf
        self._dry_runs = dry_runs
        self._instances = instances
        self._busy_timeout = busy_timeout
        self._pace = pace
        self._lock = threading.Lock()

    def decision(self, name: str, most_hosts: int) -> Document | None:
        """Return the explanation of the latest decision on a request id or an instance; None if unknown.

        Raises:
            Busy: Another question is being answered.
        """
        with self._alone():
            record = self._memory.find(name)
            if record is None:
                return None
            return explain(record, self._names(), most_hosts, pause=self._pace())

    def host(self, name: str, host: str) -> Document | None:
        """Return what each filter says of a host for the latest decision on ``name``; None if unknown.

        Raises:
            Busy: Another question is being answered.
        """
        with self._alone():
            record = self._memory.find(name)
            return None if record is None else explain_host(record, host, self._names())

    def decisions(
        self, *, failed: bool = False, since: float = 0.0, project: str | None = None, at_most: int = 100
    ) -> list[Document]:
        """Return one entry for each of the latest decisions, the latest first.

        Args:
            failed: Only those of requests that failed.
            since: Only those since this time, in seconds since the epoch.
            project: Only those for instances of this project.
            at_most: The number of entries.
        """
        found: list[Document] = []
        for record in self._memory.latest_first():
            if len(found) >= min(at_most, MOST_ENTRIES):
                break
            if record.started_at >= since and _wanted(record, failed=failed, project=project):
                found.append(entry(record))
        return found

    def dry_run(self, context: Any, spec: objects.RequestSpec, most_hosts: int) -> Document:
        """Return the explanation of what would be decided now.

        Raises:
            Busy: Another question is being answered.
            InvalidRequest: The request cannot be read.
        """
        with self._alone():
            record = self._dry_runs.decide(context, spec)
            return explain(record, self._names(), most_hosts, source=DRY_RUN, pause=self._pace())

    def partition(self) -> str:
        """Return the partition that is served here; "" for all hosts."""
        return (self._conf.berth.partition or "").lower()

    def capacity(self, context: Any, spec: objects.RequestSpec) -> Document:
        """Return how many more instances of a request fit.

        Raises:
            Busy: Another question is being answered.
            InvalidRequest: The request cannot be read.
        """
        with self._alone():
            return capacity(self._dry_runs.offer(context, spec), self._names(), self._pace())

    def compare(
        self, settings: Mapping[str, str], name: str | None, at_most: int, since: float = 0.0
    ) -> Document | None:
        """Return what other options would change for the latest requests, or for one.

        Args:
            settings: Texts by the names of options, as ``read_changes`` takes them.
            name: A request id or an instance; None: the latest requests.
            at_most: The number of requests.
            since: Only requests since this time, in seconds since the epoch.

        Returns:
            How the choices differ; None if no such request is recorded.

        Raises:
            Busy: Another question is being answered.
            InvalidRequest: An option does not exist, does not decide, or cannot have the value.
        """
        with self._alone():
            try:
                changed: Any = ChangedOptions(self._conf, read_changes(settings))
                now = RuleSet(self._conf, load_rules(self._conf))
                other = RuleSet(changed, load_changed(changed, self._conf))
            except BerthError as error:
                raise InvalidRequest(str(error)) from error
            records = self._recorded(name, min(at_most, MOST_COMPARED), since)
            if not records:
                return None
            document = compare(records, now, other, self._instances, self._pace())
        return document | {"options": _values(self._conf, settings)}

    def _recorded(self, name: str | None, at_most: int, since: float) -> list[DecisionRecord]:
        """Return the records of the latest builds, the oldest first."""
        if name is not None:
            found = self._memory.find(name)
            return [] if found is None else [found]
        late = (record for record in self._memory.latest_first() if record.started_at >= since)
        builds = (record for record in late if record.request.kind is RequestKind.BUILD)
        return list(islice(builds, at_most))[::-1]

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._lock.acquire(timeout=self._busy_timeout):
            raise Busy("Another question is being answered; ask again later")
        try:
            yield
        finally:
            self._lock.release()


def _wanted(record: DecisionRecord, *, failed: bool, project: str | None) -> bool:
    if failed and not record.error:
        return False
    spec = record.request.spec
    return project is None or (spec.project_id if "project_id" in spec else None) == project


def _values(conf: Any, settings: Mapping[str, str]) -> list[Document]:
    return [
        {"group": group, "name": name, "now": _plain(_read(conf, group, name)), "changed": _plain(value)}
        for (group, name), value in read_changes(settings).items()
    ]


def _read(conf: Any, group: str, name: str) -> Any:
    return conf[name] if group == "DEFAULT" else conf[group][name]


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, (bool, int, float, str, list)) else str(value)


def seconds_of(text: str) -> float:
    """Return the seconds since the epoch of a time in ISO format; one without a zone is UTC."""
    moment = datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
