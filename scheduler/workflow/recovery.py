"""What the instances of a request hold because of others: earlier runs of it, and other requests.

A request without a past does not come here.
"""

from collections.abc import Mapping

from oslo_log import log as logging

from scheduler.claims.held import NothingSent
from scheduler.errors import AllocationUpdateFailed, DependencyUnavailable, NoValidHost
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.alternates import Selections
from scheduler.selection.driver import FilterDriver
from scheduler.workflow.held_hosts import HeldHost
from scheduler.workflow.steps import Steps

LOG = logging.getLogger(f"nova.{__name__}")

AllHeld = Mapping[str, HeldHost]
"""The host of each instance that holds one which would do."""


class Recovery:
    """Finds what the instances of requests hold. Any thread may use it."""

    def __init__(self, steps: Steps, driver: FilterDriver) -> None:
        self._steps = steps
        self._driver = driver

    def find(self, request: SchedulingRequest) -> AllHeld:
        """Return the host of each instance of a request with a past; {} unless all hold one.

        What only some hold is released: the request was never answered.

        Raises:
            CallerLeft: Nobody waits for the instances any more.
            DependencyUnavailable: It is not known what they hold.
        """
        # Nova is read first: a backlog whose callers have left costs no query to Placement.
        self._steps.callers.check(request)
        held = self._held(request)
        if 0 < len(held) < len(request.instance_uuids):
            # They are read one by one, and another run may claim and fence them meanwhile. If it fenced
            # before the first reading, the second one finds all; if later, what is released by the
            # generations of the first one is not released.
            again = self._held(request)
            held = again if len(again) == len(request.instance_uuids) else held
        if len(held) == len(request.instance_uuids):
            return held
        if held:
            self._steps.callers.release(held, request)
        return {}

    def selections(self, held: AllHeld, request: SchedulingRequest) -> Selections:
        """Return the hosts that instances hold already as a reply, without alternates.

        An earlier run of the request, or another request for the same instances, may have been answered with
        them; so they are not filtered again.
        """
        LOG.info(
            "Answering a request with the hosts that its instances already hold: %s", request.instance_uuids
        )
        driver, chosen = self._driver.without_rules(), NothingSent()
        each = [held[uuid] for uuid in request.instance_uuids]
        return [row for one in each for row in driver.select(one.host, one.request.restarted(), chosen)]

    def on_further_hosts(self, error: AllocationUpdateFailed, request: SchedulingRequest) -> frozenset[str]:
        """Return what an evacuated instance holds, also on further hosts, after its claim met that.

        An earlier evacuation left it there: a host that is down releases its allocations when it returns.

        Returns:
            Nothing if another run or request was first.

        Raises:
            AllocationUpdateFailed: The instance holds what is of no use here.
        """
        if not error.held or self._held(request):
            return frozenset()
        candidate_hosts = self._steps.candidate_hosts
        ignored = candidate_hosts.ignored_nodes(candidate_hosts.table_with(error.held, request), request)
        if ignored & error.held:
            LOG.info(
                "Instance %s keeps its allocations on hosts that it cannot be evacuated to: %s",
                error.consumer_uuid,
                ", ".join(sorted(error.held - ignored)),
            )
            return error.held
        # Two runs at the same time can release everything, as each met the claims of the other one.
        if self._steps.held_hosts.is_any_held(request) and not self._held(request):
            raise error
        return frozenset()

    def _held(self, request: SchedulingRequest) -> AllHeld:
        try:
            held = self._steps.held_hosts.of_each(request)
        except DependencyUnavailable:
            # What an earlier run wrote for them is not known.
            self._steps.callers.note_unknown(request)
            raise
        if request.spec.ignore_hosts:
            # An earlier evacuation may have left something on a host that is down now.
            return {uuid: one for uuid, one in held.items() if self._passes(one)}
        return held

    def _passes(self, held: HeldHost) -> bool:
        try:
            self._driver.select(held.host, held.request.restarted(), NothingSent())
        except NoValidHost:
            return False
        finally:
            self._steps.hosts.pending.remove(held.request.instance_uuids)
        return True
