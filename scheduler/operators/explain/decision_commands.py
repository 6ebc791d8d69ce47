"""berth-explain decision, list and waiting, and what all commands of berth-explain have in common."""

import argparse
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
import logging
from typing import Any, NamedTuple

import msgspec
import oslo_messaging as messaging

from scheduler import conf as options
from scheduler.decisions.document import Decision, decode, decode_entry
from scheduler.decisions.open_requests import MOST_LISTED, OpenRequest
from scheduler.decisions.rendering import first
from scheduler.decisions.words import NAMED
from scheduler.errors import BerthError
from scheduler.logs import brief
from scheduler.nova_db.cells import UNREADABLE
from scheduler.nova_db.engines import Engines
from scheduler.nova_service.service_record import live_schedulers
from scheduler.operators.app import (
    Arguments,
    count,
    flag,
    latest,
    positive_number,
    value,
    values,
    whole_number,
)
from scheduler.operators.explain import decision
from scheduler.operators.explain.log_reader import DecisionLogReader
from scheduler.operators.shown.command import ShownCommand
from scheduler.operators.shown.shown import Columns, Head, Saying, Shown, table
from scheduler.rpc import explain
from scheduler.rpc.transport import command_transport
from scheduler.stream.broker import broker_hosts, why_unavailable

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds that a scheduler may take to answer.
TIMEOUT = 5.0

Document = dict[str, Any]

#: The argument that names a decision.
NAMES = "REQUEST_ID|INSTANCE_UUID"
NAME = value("name", NAMES, "its latest decision is explained")

#: Where a decision comes from.
MEMORY, LOG_FILE = "memory", "log"


class NoAnswer(BerthError):
    """Neither a scheduler nor a decision log answered."""


class BrokerUnavailable(NoAnswer):
    """No host of the message broker can be used."""


class Question(ShownCommand):
    """The base of the commands that query schedulers."""

    arguments: Arguments = (
        values(
            "--scheduler",
            "HOST",
            "query only the scheduler with this [DEFAULT]/host (default: all schedulers that write "
            "heartbeats to nova's database; if none is known, the one of this host)",
        ),
        value(
            "--timeout",
            "SECONDS",
            "timeout of an answer (default: %(default)g)",
            type=positive_number,
            default=TIMEOUT,
        ),
    )

    @cached_property
    def live_hosts(self) -> list[str]:
        """The hosts of all schedulers that are up; a command reads them once."""
        engines = Engines(self.conf)
        try:
            live = live_schedulers(engines, options.service_down_time(self.conf))
        except UNREADABLE as error:
            LOG.warning(
                "Querying only the scheduler of this host; cannot read the list of schedulers: %s",
                brief(error),
            )
            live = []
        finally:
            engines.dispose()
        # a machine without a scheduler would be waited for
        return live or [self.conf.host]

    @cached_property
    def bus(self) -> messaging.Transport:
        """The transport of the command, so that it has one reply queue however often it asks."""
        return command_transport(self.conf)

    def ask(self, args: argparse.Namespace, method: str, **arguments: Any) -> Mapping[str, Any]:
        """Return the answers of all schedulers by host, and log which gave none."""
        answers = self.schedulers(args).ask(method, **arguments)
        if not answers.found:
            raise not_answered(answers.failed)
        complain(answers.failed)
        return answers.found

    def schedulers(self, args: argparse.Namespace) -> explain.Schedulers:
        """Return a client for the schedulers that the arguments name, or all.

        Raises:
            BrokerUnavailable: No host of the message broker can be used.
        """
        bus = self.bus
        # oslo.messaging would retry until the timeout
        if reason := why_unavailable(broker_hosts(self.conf), args.timeout):
            raise BrokerUnavailable(f"RabbitMQ is unavailable: {reason}")
        return explain.Schedulers(bus, args.scheduler or self.live_hosts, args.timeout)


class FoundDecision(NamedTuple):
    """A document, and where it was found.

    Attributes:
        source: ``memory`` of a scheduler, or ``log``.
        scheduler: The host of the scheduler that answered, or the file.
    """

    text: str
    source: str
    scheduler: str

    @property
    def origin(self) -> str:
        return f"{self.source} of {self.scheduler}"

    @property
    def decision(self) -> Decision:
        """The decision; it is decoded each time."""
        return decode(self.text)

    @property
    def document(self) -> Document:
        return {"source": self.source, "scheduler": self.scheduler, **msgspec.json.decode(self.text)}


class RecordedQuestion(Question):
    """The base of commands on decisions in the memory of schedulers or in a decision log."""

    arguments: Arguments = (
        value(
            "--log",
            "DIRECTORY",
            "read the decision log in this directory and query no scheduler (default: "
            "[berth]/decision_log is read if no scheduler knows the decision)",
        ),
    )

    def find_decision(self, args: argparse.Namespace, name: str) -> FoundDecision | None:
        """Return the latest decision on a request id or an instance; if there is none, log that."""
        found: list[FoundDecision] = []
        directory = args.log or self.conf.berth.decision_log
        if not args.log:
            try:
                answers = self.schedulers(args).ask("decision", name=name)
            except BrokerUnavailable as error:
                if not directory:
                    raise
                LOG.warning("%s", error)
                answers = explain.Answers({}, {})
            if not (answers.found or directory):
                raise not_answered(answers.failed)
            found += (FoundDecision(each, MEMORY, host) for host, each in answers.found.items() if each)
            if not found:
                complain(answers.failed)
        if directory and not found:
            logged = read_log(directory, lambda log: log.find([name]))
            found += (FoundDecision(line.decode(), LOG_FILE, file) for line, file in logged.values())
        if not found:
            LOG.error("No decision on %s is kept", name)
            return None
        return max(found, key=lambda one: decode_entry(one.text).time)

    def entries(self, args: argparse.Namespace, **wanted: Any) -> list[Document]:
        """Return one entry for each of the latest decisions, the latest first.

        Args:
            wanted: As those of ``DecisionMemory.entries``.
        """
        if args.log:
            return read_log(args.log, lambda log: log.entries(**wanted))
        answers = self.ask(args, "decisions", **wanted)
        found = [{**each, "scheduler": name} for name, answer in answers.items() for each in answer]
        return sorted(found, key=lambda one: one["time"], reverse=True)[: wanted["at_most"]]


def read_log(directory: str, logged: Callable[[DecisionLogReader], Any]) -> Any:
    """Return what was found in a decision log."""
    try:
        return logged(DecisionLogReader(directory))
    except OSError as error:
        raise NoAnswer(f"Cannot read the decision log: {error}") from error


def complain(failed: Mapping[str, str]) -> None:
    for line in _problems(failed):
        LOG.warning("%s", line)


def not_answered(failed: Mapping[str, str]) -> NoAnswer:
    return NoAnswer("; ".join(_problems(failed)))


def _problems(failed: Mapping[str, str]) -> Iterator[str]:
    for name, reason in failed.items():
        what = "answered with an error" if isinstance(reason, explain.Raised) else "did not answer"
        yield f"Scheduler {name} {what}: {reason}"


class DecisionCommand(RecordedQuestion):
    """Explain a decision: how many hosts each stage left and why, then each host with its outcome and reason.

    JSON and YAML have the whole document, CSV has the hosts.
    """

    arguments = (
        NAME,
        count("--hosts", 20, "number of hosts in the list, the most important first; 0: all", whole_number),
    )

    def show(self, args: argparse.Namespace) -> Shown | None:
        found = self.find_decision(args, args.name)
        if found is None:
            return None
        return decision.shown(found.decision, found.origin, found.document, args.hosts or None)


class ListCommand(RecordedQuestion):
    """List the latest decisions of all schedulers."""

    arguments = (
        flag("--failed", "only requests that failed"),
        latest(0.0),
        value("--project", "ID", "only requests of this project"),
        count("--limit", 100, "number of decisions"),
    )

    def show(self, args: argparse.Namespace) -> Shown | None:
        found = self.entries(
            args, failed=args.failed, since=args.since, project=args.project, at_most=args.limit
        )
        columns: Columns = {
            "Time": lambda one: one["time"][:19] + "Z",
            "Request": "request_id",
            "Instances": lambda one: first(one["instances"], 1),
            "Flavor": lambda one: one["flavor"]["name"],
            "Result": "result",
            "Hosts or reason": lambda one: one["summary"] or first(one["hosts"], NAMED),
            "ms": lambda one: f"{one['milliseconds']:.0f}",
        }
        decisions = table(found, columns, "Decisions", searched=True)
        return Shown(found, Head("Latest decisions"), [decisions])


class WaitingCommand(Question):
    """List the requests in progress of all schedulers, the oldest first, and what each of them waits for."""

    def show(self, args: argparse.Namespace) -> Shown:
        answers = {
            host: msgspec.convert(answer, list[OpenRequest])
            for host, answer in self.ask(args, "waiting").items()
        }
        found = [(host, request) for host, requests in answers.items() for request in requests]
        found.sort(key=lambda one: -one[1].age)
        document = [{"scheduler": host, **msgspec.to_builtins(request)} for host, request in found]
        lines = [f"Requests in progress: {len(found)} (schedulers asked: {', '.join(sorted(answers))})"]
        if full := sorted(host for host, requests in answers.items() if len(requests) >= MOST_LISTED):
            lines.append(f"Only the {MOST_LISTED} oldest are listed of: {', '.join(full)}")
        columns: Columns = {
            "Age (s)": lambda one: f"{one[1].age:.1f}",
            "Step": lambda one: one[1].step,
            "Waits for": lambda one: one[1].waits_for,
            "Waits (s)": lambda one: f"{one[1].waited:.1f}" if one[1].waits_for else "",
            "Request": lambda one: one[1].request_id,
            "Instances": lambda one: one[1].instances_text,
            "Scheduler": 0,
        }
        requests = table(found, columns, "The oldest first", searched=bool(found))
        return Shown(document, Head("Requests in progress", sayings=[*map(Saying, lines)]), [requests])
