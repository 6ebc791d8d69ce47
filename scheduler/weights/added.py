"""What the weighers that nova does not have are."""

from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.base import HostWeigher, Scorer


class AddedWeigher(HostWeigher):
    """A weigher of Berth's own, with its multiplier in ``[berth]``; with 0 it weighs nothing.

    The multiplier is the same for all hosts: aggregate metadata does not change it.
    """

    def configured_multiplier(self) -> float:
        return float(self.conf.berth[self.option])

    def multiplier(self, hosts: HostView) -> float:
        return self.configured_multiplier()

    def prepare(self, request: SchedulingRequest) -> Scorer | None:
        return self.scorer(request) if self.configured_multiplier() else None

    def scorer(self, request: SchedulingRequest) -> Scorer | None:
        """Return a scorer for the request; None if all weights would be alike."""
        raise NotImplementedError
