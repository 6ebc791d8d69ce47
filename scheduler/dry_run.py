"""Decisions that change nothing: what would happen to a request now.

The manager itself decides, on the same hosts and with the same questions to Placement. It claims nothing,
announces nothing, keeps no record, and holds up no other request of the same server group.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
import math
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from oslo_utils import uuidutils

from scheduler import objects
from scheduler.errors import BerthError, InvalidRequest
from scheduler.explain.capacity import Offer
from scheduler.explain.hints import hint_notes
from scheduler.explain.record import DecisionRecord
from scheduler.explain.recorder import LastRecord
from scheduler.explain.trace import Trace
from scheduler.manager import SchedulerManager
from scheduler.manager_parts import ManagerParts
from scheduler.placement.candidates import Candidates, CandidateSource, FetchCandidates
from scheduler.request.query import Query, without_limit
from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.workflow.request_run import AsReply, Reply

LOG = logging.getLogger(__name__)


class DryRuns:
    """Decides requests without effects, with the parts of a running manager."""

    def __init__(self, manager: SchedulerManager) -> None:
        """Decide as ``manager`` does."""
        self._manager = manager

    def decide(self, context: Any, spec: objects.RequestSpec) -> DecisionRecord:
        """Return the record of what would be decided now.

        Args:
            context: The context of the question.
            spec: The request; it is changed as by a request.

        Raises:
            InvalidRequest: The request cannot be read.
        """
        return self._run(self._manager.parts, context, spec)

    def offer(self, context: Any, spec: objects.RequestSpec) -> Offer:
        """Return the record of what would be decided now, and what Placement has left on all hosts.

        Raises:
            InvalidRequest: The request cannot be read.
        """
        noted = _AllCandidates(self._manager.parts)
        parts = replace(self._manager.parts, candidates=noted)
        record = self._run(parts, context, spec)
        table = parts.hosts.snapshot(math.inf) if record.hosts is None else record.hosts.table
        return Offer(record, noted.found, self._manager.conf, table)

    def _run(self, parts: ManagerParts, context: Any, spec: objects.RequestSpec) -> DecisionRecord:
        return self._manager_of(parts, spec).decide(context, spec)

    def _manager_of(self, parts: ManagerParts, spec: objects.RequestSpec) -> "_DryManager":
        LOG.info(
            "Dry run for %d instances of flavor %s, asked for by berth-explain: nothing is claimed",
            spec.num_instances,
            spec.flavor.name if "name" in spec.flavor else None,
        )
        return _DryManager(self._manager.conf, parts)


class _Unannounced:
    """Notifications that are not sent."""

    def select_destinations_start(self, context: Any, spec: objects.RequestSpec) -> None: ...

    def select_destinations_end(self, context: Any, spec: objects.RequestSpec) -> None: ...

    def stop(self, timeout: float) -> None: ...


class _DryManager(SchedulerManager):
    """Decides one request without effects. It is never started: its parts are."""

    def __init__(self, conf: cfg.ConfigOpts, parts: ManagerParts) -> None:
        super().__init__(conf, _Unannounced(), parts=parts)
        self.decisions: LastRecord = LastRecord(conf, parts.clock)

    def decide(self, context: Any, spec: objects.RequestSpec) -> DecisionRecord:
        try:
            self.select_destinations(context, spec, None, return_alternates=True)
        except InvalidRequest:
            raise
        except BerthError as error:
            LOG.info("The dry run ends without hosts: %s", error)
        if self.decisions.record is None:
            raise InvalidRequest("The request ended before anything was decided")
        return self.decisions.record

    def use_rules(self) -> None:
        """Load the rules, and log nothing."""
        chain, weighers = self._load_rules()
        self._rules = {each.name for each in chain.filters} | {each.name for each in weighers}

    def _serve(self, request: SchedulingRequest, as_reply: AsReply) -> Reply:
        """Decide for instances of their own, as a conductor would have asked for them."""
        more = (uuidutils.generate_uuid() for _ in request.instance_uuids[1:])
        asked = replace(request, instance_uuids=(*request.instance_uuids[:1], *more))
        asked.counts.notes.extend(hint_notes(asked.spec, self._rules))
        return super()._serve(self._in_group(asked), as_reply)

    def _in_group(self, request: SchedulingRequest) -> SchedulingRequest:
        """Return the request with the new instances in its server group, and with the hosts of the others."""
        group = request.server_group
        if group is None:
            return request
        hosts = group.hosts
        if read(request.spec.instance_group, "hosts") is None:
            found, complete = self.hosts.hosts_of_instances(group.members)
            hosts = tuple(sorted(found))
            if not complete:
                request.counts.notes.append("Cells that cannot be read may have further members of the group")
        return request.with_group((*group.members, *request.instance_uuids), hosts)

    @contextmanager
    def _logging(self, request: SchedulingRequest, trace: Trace) -> Iterator[None]:
        """Log no decision: none was made."""
        yield


class _AllCandidates(CandidateSource):
    """Asks for the candidates of all hosts, with what Placement has left of them.

    Attributes:
        found: The last answer.
    """

    def __init__(self, parts: ManagerParts) -> None:
        super().__init__(FetchCandidates(parts.placement))
        self.found = Candidates()

    def fetch(self, queries: Sequence[Query], context: Any) -> Candidates:
        self.found = super().fetch([without_limit(each) for each in queries], context)
        return self.found
