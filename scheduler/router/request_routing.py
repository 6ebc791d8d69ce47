"""One request and its way through partitions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

from scheduler.errors import BerthError, HostsUnknown, NoValidHost
from scheduler.router import path
from scheduler.router.router import Call, Router
from scheduler.router.routing import RoutingFacts


class Noted(Protocol):
    """Notes the way of a request; as ``explain.trace.Trace``."""

    def passed_on(self, partition: str, error: BaseException) -> None:
        """Note that it is passed on to a partition because of an error; "": it is not."""


class RequestRouting:
    """Sends one request on.

    Attributes:
        partition: The partition that is served here; "" for all hosts.
        tried_before: The partitions that had no host for the request before.
    """

    def __init__(self, router: Router, facts: RoutingFacts, call: Call) -> None:
        """Route a request.

        Args:
            router: Sends it on.
            facts: What decides on the partition.
            call: The call to be answered.
        """
        self._router = router
        self._facts = facts
        self._call = call
        self.partition = router.partition
        stops = path.stops(call.tried)
        was_sent_here = stops and path.current(call.tried) == self.partition
        self.tried_before = stops[:-1] if was_sent_here else stops

    def route(self) -> None:
        """Send the request to the partition that it belongs to; see ``Router.route``."""
        self._router.route(self._facts, self._call)

    @contextmanager
    def passing_on(self, describe: Callable[[BerthError], str], noted: Noted) -> Iterator[None]:
        """Pass the request on, if it ends without a host and another partition may have one.

        Args:
            describe: Returns why there is no host here.
            noted: Notes where it goes.
        """
        try:
            yield
        except (NoValidHost, HostsUnknown) as error:
            if not (isinstance(error, NoValidHost) and error.final):
                to = partial(noted.passed_on, error=error)
                self._router.pass_on(self._facts, self._call, describe(error), to)
            raise
