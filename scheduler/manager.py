"""One scheduler: its life, and what it is called for.

Its parts are put together in ``parts.py``; the steps of a request are in ``workflow/run.py``.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
import math
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from scheduler import conf as options
from scheduler import objects
from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.bounds.outages import IDLE_INTERVAL, Outages
from scheduler.decisions.decision_line import placed_lines, refused_line
from scheduler.decisions.explanation import FailureExplainer
from scheduler.decisions.record import Names
from scheduler.decisions.recorder import DecisionRecorder, Observe
from scheduler.decisions.trace import Trace
from scheduler.errors import (
    BerthError,
    CallerLeft,
    DependencyUnavailable,
    HostsUnknown,
    PlacementUnavailable,
    ReturnedToBroker,
)
from scheduler.health import catalogue
from scheduler.health.state import CellState, ServiceState
from scheduler.parts import Parts, make_driver, make_world
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections, as_dicts
from scheduler.workflow.run import RequestRun
from scheduler.workflow.world import Announcer

LOG = logging.getLogger(f"nova.{__name__}")

Reply = Selections | list[dict[str, Any]]
"""For each instance its Selections; or, for callers that want no objects, the dict of the first of them."""

# Seconds at the end of a process for notifications that still wait for their broker.
NOTIFY_TIMEOUT = 5.0

# Seconds at the end of a process for decisions that still have to be written to disk.
DECISIONS_TIMEOUT = 2.0

# Seconds before the first request for the first refresh of the mirror, and for the decision stream: half of a
# caller's timeout. Without the mirror requests query Placement; none fails.
MIRROR_START_TIMEOUT = STREAM_START_TIMEOUT = 30.0


class SchedulerManager:
    """One scheduler: what it knows and keeps, and ``select_destinations``.

    Attributes:
        hosts: What is known of the hosts.
        notifications: Where requests are announced.
        parts: What the manager works with.
        world: What decisions read.
        decisions: The documents of the latest requests.
        explainer: Explains requests that find no valid host.
        stream: What other schedulers decide, if it is shared.
        outages: What requests wait for that cannot be decided now.
        filters: The filters in use.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        notifications: Announcer,
        parts: Parts,
        on_decision: Observe = lambda _trace, _error: None,
    ) -> None:
        """Put the parts together; nothing is connected to yet.

        Args:
            on_decision: Called with what was noted of each decision.

        Raises:
            HostFilterNotFound: An enabled filter does not exist.
            ClassNotFound: A configured class does not exist.
        """
        self.conf = conf
        self.notifications = notifications
        self.parts = parts
        self.hosts = parts.hosts
        self._placement = parts.placement
        self._claims = parts.claims
        self._mirror = parts.mirror
        self.stream = parts.stream
        self._clock = parts.hosts.clock
        self._make_world = make_world(conf, parts, notifications)
        self.explainer = FailureExplainer(
            table=partial(self.hosts.snapshot, math.inf),
            mirror=parts.mirror,
            placement=parts.placement,
            chain=lambda: self.filters,
            is_mapped=lambda host: self.hosts.mapped(host),  # noqa: PLW0108 - of the hosts as they are then
            instances=self.hosts.instances,
            pending=self.hosts.pending,
            clock=self._clock,
        )
        self.decisions = DecisionRecorder(conf, self._clock, on_decision, self.explainer.explain, self.names)
        self.outages = Outages(
            self._find_outage,
            lambda: conf.berth.outage_patience,
            # Hosts that are unknown here another scheduler may be able to read.
            lambda: not all(each.usable for each in self._readings()),
            self._clock,
        )
        self.use_rules()

    def use_rules(self) -> None:
        """Load the filters and weighers that the options name, and use them from the next request on."""
        (self.filters, weighers), driver = make_driver(self.conf, self.hosts.mapped)
        self.world = self._make_world(driver=driver)
        # Conductors refuse server groups whose filter is missing in *their* options: for comparison.
        LOG.info("Filters: %s", ", ".join(each.name for each in self.filters.filters))
        LOG.info("Weighers: %s", ", ".join(each.name for each in weighers))

    def names(self) -> Names:
        """Return what cells and hosts without a zone are called."""
        return Names(self.hosts.cell_names(), self.conf.default_availability_zone)

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to read hosts and Placement. What is unavailable is waited for in the background.

        Raises:
            PlacementAuthFailure: Keystone refuses the credentials.
        """
        self._placement.start()
        self._claims.doubts.start()
        self.hosts.start()
        self._mirror.start()
        self.decisions.start()

    def wait_until_ready(self, timeout: float) -> bool:
        """Wait until the API database has been read once, for at most ``timeout`` seconds.

        Returns:
            Whether it has been read. Without it every request would end with 'not enough hosts'.
        """
        return self.hosts.wait_until_ready(timeout)

    def wait_until_able(self, timeout: float) -> bool:
        """Wait until Placement has answered these credentials, for at most ``timeout`` seconds.

        Returns:
            Whether it has, and nothing else keeps this scheduler from deciding requests.
        """
        return self.outages.wait_until_able(timeout)

    def catch_up(self) -> None:
        """Read what others have decided in the last minutes, and the mirror; then begin to look for outages.

        To be called once the host table has been read, and before the first request. The time is bounded.
        """
        self.stream.start()
        self.stream.wait_until_caught_up(STREAM_START_TIMEOUT)
        self._mirror.wait_until_tried(MIRROR_START_TIMEOUT)
        # Before the table was read, all cells would count as unreadable, and requests go to other schedulers.
        self.outages.start()

    def reset(self) -> None:
        """On SIGHUP: read cells and connections again, and take over changed options.

        Raises:
            ConfigError: An option cannot work; the rules stay as they were. So for the other errors of the
                constructor.
        """
        self.hosts.reset()
        self.use_rules()

    def stop_claiming(self) -> None:
        """Claim nothing more. Requests that have not claimed all they need release what they claimed.

        They end with ``ReturnedToBroker``, and are returned to the broker.
        """
        self.outages.stop()
        self._claims.stop_claiming()

    def stop(self, seconds_left: Callable[[], float]) -> None:
        """After the last request: finish background work, in the time that is left."""
        self.stop_claiming()
        self._claims.doubts.stop()
        self.stream.stop()
        self.notifications.stop(min(seconds_left(), NOTIFY_TIMEOUT))
        self.decisions.stop(min(seconds_left(), DECISIONS_TIMEOUT))
        self._mirror.stop()
        self.hosts.stop()

    def state(self) -> ServiceState:
        """Return what health checks and metrics show of this scheduler, apart from its messages."""
        cells = self.hosts.reader.cell_readings()
        shared = self.stream.status()
        gauges = {
            catalogue.WAITING.name: self.outages.waiting,
            catalogue.SCHEDULERS.name: shared.schedulers,
            catalogue.COMPUTE_NODES.name: len(self.hosts.store),
            catalogue.PENDING.name: len(self.hosts.pending),
            catalogue.CLEANUPS.name: self._claims.doubts.unsettled,
            catalogue.MIRROR_AGE.name: self._mirror.age(),
        }
        return ServiceState(
            cells=tuple(
                CellState(cell.name or cell.uuid, cell.enabled, usable, age) for cell, usable, age in cells
            ),
            api_database=self.hosts.engines.api_answers,
            placement=self._placement.answers,
            placement_problem=self._placement.problem,
            decision_stream=shared.in_step if shared.wanted else None,
            stalled=self.hosts.store.overdue(),
            gauges=gauges,
        )

    def _find_outage(self, suspect: DependencyUnavailable | None) -> DependencyUnavailable | None:
        """Return why no request can be decided now; see ``Outages``."""
        problem = self._placement.check(unused_for=0.0 if suspect else IDLE_INTERVAL)
        if problem:
            return PlacementUnavailable(problem)
        if isinstance(suspect, HostsUnknown):
            readings = self._readings()
            if not any(each.usable for each in readings):
                return HostsUnknown(each.cell for each in readings)
        return None

    def _readings(self) -> list[Any]:
        return [each for each in self.hosts.reader.cell_readings() if each.cell.enabled]

    # -- a request -------------------------------------------------------------------------------------------

    def select_destinations(
        self,
        context: Any,
        spec: objects.RequestSpec,
        instance_uuids: Sequence[str] | None,
        return_objects: bool = True,
        return_alternates: bool = False,
    ) -> Reply:
        """Choose a host for each instance, and claim it.

        Args:
            spec: The request; pre-filters and the choice of hosts change it, as nova's do.
            instance_uuids: None: hosts are chosen for ``spec.num_instances`` and nothing is claimed.
            return_objects: Whether the reply consists of Selections; if not, of the older dicts.
            return_alternates: Whether alternates follow the chosen host of each instance.

        Returns:
            For each instance a list of Selections, the first of them claimed; or one dict.

        Raises:
            NoValidHost: An instance would be left without a host. Nothing stays claimed then.
            DependencyUnavailable: It is not known whether there is a host, and that lasted for
                [berth]/outage_patience. Nothing stays claimed.
            ReturnedToBroker: The process stops, or there is an outage here and another scheduler can decide.
                Nothing stays claimed.
            CallerLeft: Nobody waits for the instances any more. Nothing stays claimed.
        """
        LOG.debug("Starting to schedule for instances: %s", instance_uuids)
        arrived_at = self._clock()
        request = SchedulingRequest.of(
            spec,
            instance_uuids,
            context,
            with_alternates=return_objects and return_alternates,
            arrived_at=arrived_at,
        )
        request = replace(request, deadline=request.received_at + options.caller_patience(self.conf))
        with limit_to(Deadline(request.deadline, self._clock)):
            started, trace = self._clock(), self.decisions.begin(request)
            with self._logging(request, trace, started), self.decisions.recording(trace):
                selections = self.outages.run(RequestRun(self.world, trace).reply_to, request)
            seconds, cell_names = self._clock() - started, self.hosts.cell_names()
            for line in placed_lines(trace.record, selections, seconds, cell_names):
                LOG.info("%s", line)
            return selections if return_objects else as_dicts(selections)

    @contextmanager
    def _logging(self, request: SchedulingRequest, trace: Trace, started: float) -> Iterator[None]:
        """Log why a request gets no host."""
        try:
            yield
        except ReturnedToBroker:
            raise
        except CallerLeft as error:
            if request.call is not None:
                request.call.dropped = str(error)
            raise
        except BerthError as error:
            reason, cause = str(error).strip(), trace.decision.cause
            if cause is None:
                reason = trace.decision.summary or reason
            else:
                words = "" if cause.words in reason else f" {cause.words}"
                reason = f"{reason}{words} [{cause.code}]"
            LOG.info("%s", refused_line(trace.record, self._clock() - started, reason))
            raise

    # -- casts ----------------------------------------------------------------------------------------------

    def reread_aggregates(self) -> None:
        """Read the host aggregates soon: some were made, changed or deleted."""
        self.hosts.api.begin_reading()

    def reread_instances(self, uuids: Sequence[str]) -> None:
        """Read the images of instances again: a host has them, perhaps among others."""
        self.hosts.instances.reread_images(uuids)

    def forget_instance(self, uuid: str) -> None:
        """Note that an instance has left its host."""
        self.hosts.instances.reread_images([uuid])
        self.hosts.pending.remove([uuid])
        self.stream.sharing.gone(uuid)
