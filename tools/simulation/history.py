"""One history: everything starts, things go wrong, quiet returns, and the promise is checked."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
import logging
from typing import Any

import orjson

from tools.simulation import product, threads
from tools.simulation.broker import Broker
from tools.simulation.callers import Callers, Instance
from tools.simulation.daemon import Host
from tools.simulation.http import Adapter, Faults, Server, Weather
from tools.simulation.placement import Consumer, Placement, Provider
from tools.simulation.plan import POLICIES, Event, Plan
from tools.simulation.promise import (
    Violation,
    check_allocations,
    check_calls,
    check_capacity,
    check_errors,
    check_groups,
    check_receipts,
    check_waits,
)
from tools.simulation.runtime import Endless, Process, Runtime
from tools.simulation.stream import Stream

#: Seconds between the look at a reply queue and the reply.
LOOK = 0.02

# Seconds of quiet: longer than the product goes on with a clean-up. Most histories end before: if nothing was
# written for some of them, and the promise holds.
QUIET = 4000.0
SETTLED = 400.0

# One of so many histories lasts to the end all the same.
THOROUGH = 10

# The profile whose histories all last to the end, since what can go wrong there takes so long.
LASTING = "moves"

# The profile in which nothing fails, so that no claim may leave a host over its capacity.
FAIR = "crowd"

# The profile in which there is room for all requests, so that none may fail.
WITH_ROOM = "partitions"

# Lines of a trace that are kept, the last ones.
MOST_LINES = 100_000

# Seconds after which faults have stopped, whatever was drawn.
LAST_FAULT = 500.0


@dataclass
class Outcome:
    """What came of a history.

    Attributes:
        violations: Sorted.
        trace: Lines, if they were wanted.
        seconds: Virtual seconds.
        counts: Calls, and their instances.
    """

    plan: Plan
    violations: list[Violation]
    trace: list[str]
    seconds: float
    counts: dict[str, int]


class Trace(logging.Handler):
    """Collects what happens, and what the product logs."""

    def __init__(self, runtime: Runtime, *, wanted: bool) -> None:
        super().__init__(logging.INFO if wanted else logging.ERROR)
        self.lines: deque[str] = deque(maxlen=MOST_LINES)
        self.errors: list[str] = []
        self._runtime = runtime
        self._wanted = wanted

    def tell(self, text: str) -> None:
        """Write down an event of the process that is running."""
        if self._wanted and not self._runtime.closed:
            task = self._runtime.current
            who = str(task.process) if task else ""
            self.lines.append(f"{self._runtime.clock:9.3f} {who:12} {product.with_names(text)}")

    def emit(self, record: logging.LogRecord) -> None:
        """Write down what is logged; a traceback of the product's counts as an error."""
        if self._runtime.closed:
            return
        if _is_unexpected(record):
            self.errors.append(f"{record.exc_info[0].__name__}: {record.exc_info[1]}")
        self.tell(f"{record.levelname}: {record.getMessage()}")


def _is_unexpected(record: logging.LogRecord) -> bool:
    """Return whether the product logs a traceback of an error that the simulation has not made."""
    if not (record.exc_info and record.exc_info[0] and record.name.startswith("nova.scheduler")):
        return False
    return not any(text in str(record.exc_info[1]) for text in (threads.NO_THREAD, product.BROKEN))


class History:
    """Runs once, as its plan says.

    Args:
        plan: What is to happen.
        trace: Whether to write down what happens.
    """

    def __init__(self, plan: Plan, *, trace: bool = False) -> None:
        self.plan = plan
        self._runtime = Runtime(plan.seed, plan.limits.preemption)
        self._trace = Trace(self._runtime, wanted=trace)
        tell = self._trace.tell
        limits = plan.limits
        room = {name: {"total": amount * limits.room} for name, amount in product.AMOUNTS.items()}
        self._placement = Placement([Provider(product.host_uuid(n), room) for n in range(limits.hosts)])
        self._server = Server(self._runtime, self._placement, plan.seed, tell)
        self._faults = Faults(Weather(), plan.seed)
        self._broker = Broker(self._runtime, plan.seed, tell)
        self._callers = Callers(
            self._runtime,
            self._broker,
            self._placement,
            (limits.response_timeout, limits.long_timeout),
            tell,
        )
        self._stream = Stream(self._broker) if limits.stream else None
        self._adapters: list[Adapter] = []
        self._database = ""
        self._paused = 0.0
        self._hosts = [self._make_host(number) for number in range(limits.schedulers)]

    def _make_host(self, number: int) -> Host:
        limits = self.plan.limits
        parts = self._make_product(number)
        name = f"{chr(ord('a') + number)} " if limits.schedulers > 1 else ""
        return Host(self._runtime, parts, limits.workers, float(limits.alarm), self._trace.tell, name)

    def _make_product(self, number: int) -> product.Parts:
        limits = self.plan.limits
        parts = product.Parts(
            product.apply(limits),
            limits,
            self._broker,
            self._adapter,
            lambda: self._database,
            self._callers.instance,
            self._callers.buried,
            self._callers.places,
        )
        parts.leads = lambda: self._first() == number
        if limits.partitions:
            parts.share = number, limits.schedulers
        if self._stream is not None:
            parts.make_stream = partial(self._stream.of, f"berth{number}")
        return parts

    def _first(self) -> int:
        """Return the number of the first host whose first daemon is up."""
        return next((number for number, each in enumerate(self._hosts) if each.daemon(0)), 0)

    def run(self) -> Outcome:
        """Run to the end and check the promise."""
        logger = logging.getLogger()
        logger.addHandler(self._trace)
        logger.setLevel(self._trace.level)
        try:
            with self._runtime as runtime:
                self._begin()
                runtime.run(self._end_of_faults())
                self._calm()
                violations = self._let_settle(runtime)
        except Endless as error:
            violations = [Violation("endless", str(error))]
        finally:
            logger.removeHandler(self._trace)
            threads.clear()
        counts = {"calls": len(self._callers.calls), "instances": len(self._callers.instances)}
        return Outcome(self.plan, violations, list(self._trace.lines), runtime.clock, counts)

    def _end_of_faults(self) -> float:
        """Return when the last fault of the plan ends, or LAST_FAULT."""
        events = [each.at + each.details.get("duration", 0.0) for each in self.plan.events]
        ends = [*events, *(job.at for job in self.plan.jobs)]
        return min(LAST_FAULT, max(ends) + 2.0)

    def _let_settle(self, runtime: Runtime) -> list[Violation]:
        """Run until nothing happens any more; return the violations."""
        thorough = self._broker.random.random() < 1 / THOROUGH or self.plan.profile == LASTING
        until, end = runtime.clock, runtime.clock + QUIET
        while until < end:
            until += SETTLED
            runtime.run(until)
            written = self._server.written_at > until - SETTLED
            if not (thorough or written or self._broker.is_busy or self._check()):
                break
        return sorted(set(self._check()))

    def _begin(self) -> None:
        for job in self.plan.jobs:
            for number in job.instances:
                self._add_instance(number, job.group, evacuates=job.evacuates)
            self._runtime.after(1.0 + job.at, self._callers.submit, job)
        handlers = self._handlers()
        for event in self.plan.events:
            self._runtime.after(1.0 + event.at, handlers[event.kind], event)
        for host in self._hosts:
            host.start()

    def _add_instance(self, number: int, group: int, *, evacuates: bool) -> None:
        uuid = product.instance_uuid(number)
        instance = self._callers.instances[number] = Instance(number, uuid, group=group)
        if evacuates:
            instance.source = {product.host_uuid(number % self.plan.limits.hosts): dict(product.AMOUNTS)}
            self._placement.consumers[uuid] = Consumer(1, "project", "user", 0)
            self._placement.rows[uuid] = {node: dict(held) for node, held in instance.source.items()}

    def _calm(self) -> None:
        """End all faults."""
        self._trace.tell("quiet")
        self._faults.weather = Weather()
        self._database = ""
        self._broker.redelivery = self._broker.silence = 0.0
        self._broker.largest = 16 << 20
        self._broker.start()

    # -- what parts ask for ----------------------------------------------------------------------------------

    def _adapter(self) -> Adapter:
        adapter = Adapter(self._runtime, self._server, self._faults, self._trace.tell)
        self._adapters.append(adapter)
        return adapter

    # -- events ----------------------------------------------------------------------------------------------

    def _handlers(self) -> Mapping[str, Callable[[Event], None]]:
        """Return what each kind of event does."""
        broker, callers, for_a_time, host_of = self._broker, self._callers, self._for_a_time, self._host_of
        put = self._set_for_a_time
        return {
            **dict.fromkeys(("weather", "hang", "slow", "lost", "unread", "conflicts"), self._bad_weather),
            "down": self._down,
            "crash": self._crash,
            "provider": self._without_provider,
            "outside": self._claim_outside,
            "guests": self._guests,
            "delete": lambda event: callers.delete(event.details["instance"]),
            "redelivery": lambda event: put(event, broker, "redelivery", event.details["rate"], 0.0),
            "broker": lambda event: for_a_time(event, broker.stop, broker.start),
            "channel": self._lose_channel,
            "reply queue": lambda event: for_a_time(
                event, callers.lose_reply_queue, callers.open_reply_queue
            ),
            "unconfirmed": lambda event: put(event, broker, "silence", event.details["rate"], 0.0),
            "large": lambda event: put(event, broker, "largest", event.details["bytes"], broker.largest),
            "database": lambda event: put(event, self, "_database", event.details["how"], ""),
            **dict.fromkeys(("pause", "pause later"), self._pause),
            "threads": self._refuse_threads,
            "stop": lambda event: host_of(event).terminate(event.details["worker"]),
            "reload": lambda event: host_of(event).reload(event.details["worker"]),
            "restart": lambda event: host_of(event).restart(),
            **dict.fromkeys(("kill", "kill later"), self._kill),
            "kill master": lambda event: host_of(event).kill_all(),
            "absence": lambda event: host_of(event).kill_all(min(event.details["duration"], self._left())),
        }

    def _left(self) -> float:
        """Return the seconds that are left for faults."""
        return LAST_FAULT - 1.0 - self._runtime.clock

    def _host_of(self, event: Event) -> Host:
        return self._hosts[event.details.get("scheduler", 0)]

    def _for_a_time(self, event: Event, begin: Callable[[], None], end: Callable[[], None]) -> None:
        self._trace.tell(f"{event.kind} begins: {dict(event.details)}")
        begin()

        def over() -> None:
            self._trace.tell(f"{event.kind} ends")
            end()

        self._runtime.after(min(event.details["duration"], self._left()), over)

    def _set_for_a_time(self, event: Event, owner: Any, name: str, value: Any, after: Any) -> None:
        """Set an attribute, which is ``after`` again in the end."""
        self._for_a_time(event, lambda: setattr(owner, name, value), lambda: setattr(owner, name, after))

    def _bad_weather(self, event: Event) -> None:
        weather = self._faults.weather

        def begin() -> None:
            weather.rate, weather.kinds = event.details["rate"], tuple(event.details["kinds"])
            weather.of = event.details.get("of", "")

        self._for_a_time(event, begin, lambda: setattr(weather, "rate", 0.0))

    def _down(self, event: Event) -> None:
        self._set_for_a_time(event, self._faults.weather, "down", True, False)

    def _crash(self, event: Event) -> None:
        self._server.crash()
        self._down(event)

    def _without_provider(self, event: Event) -> None:
        node = product.host_uuid(event.details["host"])
        providers = self._placement.providers
        provider = providers.get(node)
        if provider is None or any(node in rows for rows in self._placement.rows.values()):
            return
        self._for_a_time(
            event, lambda: providers.pop(node, None), lambda: providers.setdefault(node, provider)
        )

    def _claim_outside(self, event: Event) -> None:
        """Let others claim a host, as conductors do with alternates."""
        node = product.host_uuid(event.details["host"])
        body = orjson.dumps(
            {
                "allocations": {node: {"resources": dict(product.AMOUNTS)}},
                "consumer_generation": None,
                "project_id": "project",
                "user_id": "user",
            }
        )
        self._write_outside(event, "PUT", body)

    def _guests(self, event: Event) -> None:
        """Let others claim a host, and leave it after a time."""
        self._claim_outside(event)
        self._runtime.after(event.details["duration"], self._write_outside, event, "DELETE", None)

    def _write_outside(self, event: Event, method: str, body: bytes | None) -> None:
        for number in range(event.details["number"]):
            path = f"/allocations/{product.outside_uuid(int(event.at * 1000), number)}"
            done = lambda _answer: None  # noqa: E731
            self._runtime.after(0.01 * number, self._server.handle, method, path, body, 0.0, done)

    def _lose_channel(self, event: Event) -> None:
        process = self._host_of(event).daemon(event.details["worker"])
        if process is not None:
            self._trace.tell(f"{process} loses its channel")
            self._after_steps(process, event, lambda: self._broker.disconnected(process))

    def _pause(self, event: Event) -> None:
        process = self._host_of(event).daemon(event.details["worker"])
        if process is not None:
            self._paused += event.details["duration"]
            pause = lambda: self._after_steps(process, event, lambda: self._runtime.pause(process))  # noqa: E731
            self._for_a_time(event, pause, lambda: self._resume(process))

    def _resume(self, process: Process) -> None:
        process.fuse = None
        self._runtime.resume(process)

    def _refuse_threads(self, event: Event) -> None:
        process = self._host_of(event).daemon(event.details["worker"])
        if process is not None:
            self._set_for_a_time(event, process, "thread_starts_fail", True, False)

    def _kill(self, event: Event) -> None:
        number = event.details["worker"]
        host = self._host_of(event)
        process = host.daemon(number)
        if process is not None:
            self._after_steps(process, event, lambda: host.kill(number))

    def _after_steps(self, process: Process, event: Event, action: Callable[[], None]) -> None:
        steps = event.details["steps"]
        if steps:
            self._runtime.light_fuse(process, steps, action)
        else:
            action()

    # -- the end ---------------------------------------------------------------------------------------------

    def _check(self) -> list[Violation]:
        callers, limits = self._callers, self.plan.limits
        # A process that ended took its doubts along, and nova does not bury these. But the next run of a call
        # is in doubt of what earlier ones wrote, unless it is not run any more.
        # Nor can it tell a conductor that ended before it had the reply from one that ended just after that.
        forgotten = {
            instance.name
            for call in callers.calls
            if call.message.is_poison
            or (call.message.runs and not call.message.runs[-1].alive)
            or (call.orphaned and any(at < call.ended + LOOK for at in call.message.replies))
            for instance in call.instances
            if instance.source or instance.deleted or instance.host or call.orphaned
        }
        callers.note_possibly_told(self._broker.unconfirmed)
        instances = list(callers.instances.values())
        found = list(check_allocations(self._placement, instances, product.AMOUNTS, forgotten))
        if self.plan.profile == FAIR:
            found += check_capacity(self._placement, instances)
        for group, (policy, most) in POLICIES.items():
            found += check_groups(policy, most, [each for each in instances if each.group == group])
        found += check_calls(callers.calls, self._broker.waiting)
        found += check_receipts(callers.calls)
        if self.plan.profile == WITH_ROOM:
            found += check_errors(callers.calls)
        found = [
            each for each in found if each.kind not in {"moved", "lost"} or not self._was_overtaken(each)
        ]
        found += check_waits(callers.calls, limits.long_timeout, self._paused, limits.placement_timeout)
        found += [Violation("unread", f"{each.name} is still in the queue") for each in self._broker.waiting]
        found += [
            Violation("crash", f"thread {where} of {process}: {type(error).__name__}: {error}")
            for process, where, error in self._runtime.crashes
        ]
        found += [Violation("late claim", text) for each in self._adapters for text in each.late_claims]
        found += [Violation("traceback", text) for text in self._trace.errors]
        found += [
            Violation("alarm", f"{name} did not stop in time") for each in self._hosts for name in each.alarms
        ]
        return found

    def _was_overtaken(self, violation: Violation) -> bool:
        """Return whether Placement carried out an earlier write in the place of a later one (known limit)."""
        overtaken = {
            each.name for each in self._callers.instances.values() if each.uuid in self._placement.overtaken
        }
        return violation.text.partition(" ")[0] in overtaken
