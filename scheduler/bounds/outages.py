"""What becomes of requests while this scheduler cannot decide.

::

    request fails ──▶ look: is the dependency unavailable? ──▶ it waits ──▶ recovered: it is tried again
                               │ every second                     │
                               ▼                                  └──▶ patience is over: it fails
                      consume with a lower priority, and return
                      the requests that came before

One thread looks after Placement, however many requests wait. The broker gives requests to the schedulers with
the highest priority, so to those that can decide. If none can, this one goes on receiving requests: their
callers get heartbeats, and would give up without them. A request that waits holds no claim: what it had
claimed is released before.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum
import math
import threading
import time
from typing import Any, TypeVar

from oslo_log import log as logging

from scheduler.bounds.background import BackgroundLoop, MakeLoop
from scheduler.bounds.waits import waiting_for
from scheduler.errors import DependencyUnavailable, HostsUnknown, ReturnedToBroker

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two looks during an outage, and without one. Each is a small request to Placement.
LOOK_INTERVAL, IDLE_INTERVAL = 1.0, 15.0

#: Seconds of an outage before this scheduler lowers its priority: many are over by then.
GRACE = 1.0

#: Seconds between two log lines on an outage that goes on.
REMINDER_INTERVAL = 60.0

#: Longest pause, in seconds, before a request is tried again whose dependency seems to be available.
LONGEST_PAUSE = 2.0

Reply = TypeVar("Reply")


class Lacks(IntEnum):
    """What keeps a scheduler from deciding requests. One that lacks more gets requests after the others."""

    NOTHING = 0
    SOME_HOSTS = 1
    DEPENDENCY = 2


class Outage:
    """One outage, from the first look that found it.

    Attributes:
        error: The last error.
        began: When it was found, in seconds of the clock.
    """

    def __init__(self, error: DependencyUnavailable, began: float) -> None:
        self.error = error
        self.began = began
        self.reminded = began


class Outages:
    """Waits for the end of outages, in the place of requests that cannot be decided. For any thread."""

    def __init__(
        self,
        find: Callable[[DependencyUnavailable | None], DependencyUnavailable | None],
        patience: Callable[[], float],
        lacks_hosts: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Condition, float], Any] = threading.Condition.wait,
        make_loop: MakeLoop = BackgroundLoop,
    ) -> None:
        """Begin without an outage; requests are waited for once it is started.

        Args:
            find: Returns why this scheduler can decide no request now, or None; it may take some seconds. It
                is given the last error if there is an outage, or a request has failed since the last look;
                otherwise it need not query anything.
            patience: Returns the seconds for which a request waits.
            lacks_hosts: Returns whether hosts are unknown, since their cells cannot be read; must not wait.
            wait: Waits for a change, for tests.
        """
        self._find = find
        self._patience = patience
        self._lacks_hosts = lacks_hosts
        self._clock = clock
        self._wait = wait
        self._changed = threading.Condition()
        self._outage: Outage | None = None
        self._suspect: DependencyUnavailable | None = None
        self._looked_at = -math.inf
        self._stopping = False
        self._lower: Callable[[Lacks], None] = lambda _lacks: None
        self._most_waiting = math.inf
        self._loop = make_loop("outages", self.look)
        self.waiting = 0
        self.lacks = Lacks.NOTHING

    # -- life ------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look after the dependencies."""
        self._loop.start()

    def follow(self, lower: Callable[[Lacks], None], threads: int) -> None:
        """Decide from now on with which priority requests are received, which so many threads serve.

        Args:
            lower: Sets the priority by what is lacking now, as ``rpc.server.Server`` does; must not wait.
        """
        with self._changed:
            self._lower = lower
            self._most_waiting = max(1, threads // 2)
            if self.lacks:
                lower(self.lacks)

    def stop(self) -> None:
        """End the waits: requests end with ``ReturnedToBroker``."""
        self._loop.stop(0)
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def wait_until_able(self, timeout: float) -> bool:
        """Wait until a look has found no outage, for at most ``timeout`` seconds; return whether one has."""
        with self._changed:
            if not self._is_able():
                self._wait(self._changed, timeout)
            return self._is_able()

    def _is_able(self) -> bool:
        return self._looked_at > -math.inf and self._outage is None

    # -- requests --------------------------------------------------------------------------------------------

    def run(self, attempt: Callable[[Any], Reply], request: Any) -> Reply:
        """Return the reply to a request; try it again after an outage.

        Args:
            attempt: Returns the reply, or raises. If it raises ``DependencyUnavailable``, nothing is claimed.
            request: As ``SchedulingRequest``; for another attempt it is ``restarted``.

        Raises:
            DependencyUnavailable: The outage outlasts the patience.
            ReturnedToBroker: Another scheduler may be able to decide the request, or the process stops.
            Exception: What ``attempt`` raises otherwise.
        """
        if not (self._loop.running or self._stopping):
            return attempt(request)
        failures, since, outage = 0, math.inf, self._outage
        error = outage.error.again() if outage and not request.is_rebuild else None
        while True:
            if error is None:
                try:
                    return attempt(request)
                except DependencyUnavailable as failure:
                    if not failure.dependency:
                        raise
                    error = failure
                failures += 1
                since = min(since, self._clock())
                _return_outranked(error, request)
                if failures > 1 and self._is_crowded(error):
                    raise error
            self._wait_out(error, request, since, min(failures - 1.0, LONGEST_PAUSE))
            request, error = request.restarted(), None

    def _wait_out(self, error: DependencyUnavailable, request: Any, since: float, pause: float) -> None:
        """Wait until the request is to be tried again.

        Args:
            since: When it failed first; infinity if it was not tried.
            pause: The shortest wait, in seconds.
        """
        began = self._clock()

        def what() -> str:
            state = "did not answer" if self._outage is None else "is unavailable"
            return f"{error.dependency}, which {state}"

        with self._changed, self._counted(), waiting_for(what):
            if self._outage is None:
                self._suspect = error
                self._loop.wake()
            # while there is an outage, and until a look has found out whether there is
            while self._outage or self._looked_at < began or self._clock() < began + pause:
                if self._stopping:
                    raise ReturnedToBroker("the scheduler is stopping")
                _return_outranked(error, request)
                end = self._give_up_at(error, request, since)
                now = self._clock()
                if now >= end:
                    raise error
                self._wait(self._changed, min(LOOK_INTERVAL, end - now))

    def _is_crowded(self, error: DependencyUnavailable) -> bool:
        """Return whether too many threads wait for cells while others could decide requests."""
        only_some = isinstance(error, HostsUnknown) and self._outage is None
        return only_some and self.waiting >= self._most_waiting

    def _give_up_at(self, error: DependencyUnavailable, request: Any, since: float) -> float:
        """Return when the error is to be answered.

        A dependency that is slow has answered since the last failure, so its outage begins again each time,
        and the caller's patience counts.
        """
        patience = self._patience()
        if not patience:
            return -math.inf
        if self._outage is not None:
            start = max(self._outage.began, request.received_at)
        else:
            start = math.inf if error.timed_out else since
        return min(request.deadline, start + patience)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1

    # -- the outage ------------------------------------------------------------------------------------------

    def look(self) -> float:
        """Find out whether there is an outage, and act on it; return the seconds until the next look."""
        with self._changed:
            begun = self._clock()
            suspect = self._outage.error if self._outage else self._suspect
            self._suspect = None
        error = self._find(suspect)
        with self._changed:
            if error is None:
                self._end()
            elif self._outage is None:
                self._begin(error)
            else:
                self._go_on(self._outage, error)
            self._note_lacks()
            self._looked_at = begun
            self._changed.notify_all()
            return LOOK_INTERVAL if self._outage or self.lacks else IDLE_INTERVAL

    def _begin(self, error: DependencyUnavailable) -> None:
        self._outage = Outage(error, self._clock())
        LOG.error(
            "%s is unavailable (%s); requests wait for it at most %g s",
            error.dependency,
            error.reason,
            self._patience(),
        )

    def _go_on(self, outage: Outage, error: DependencyUnavailable) -> None:
        outage.error = error
        now = self._clock()
        if now < outage.reminded + REMINDER_INTERVAL:
            return
        outage.reminded = now
        LOG.error(
            "%s has been unavailable for %d s (%s); requests waiting: %d",
            error.dependency,
            now - outage.began,
            error.reason,
            self.waiting,
        )

    def _end(self) -> None:
        outage, self._outage = self._outage, None
        if outage is None:
            return
        LOG.info(
            "%s is available again after %d s; requests resumed: %d",
            outage.error.dependency,
            self._clock() - outage.began,
            self.waiting,
        )

    def _note_lacks(self) -> None:
        """Lower the priority during an outage and while hosts are unknown, and raise it afterwards."""
        if self._outage is None:
            lacks = Lacks.SOME_HOSTS if self._lacks_hosts() else Lacks.NOTHING
        elif self._clock() >= self._outage.began + GRACE:
            lacks = Lacks.DEPENDENCY
        else:
            return
        if lacks is not self.lacks:
            # before waiting requests see it: what they requeue must not be received here again
            self._lower(lacks)
        self.lacks = lacks


def _return_outranked(error: DependencyUnavailable, request: Any) -> None:
    """Return a request that was received with a higher priority than its scheduler has now.

    Raises:
        ReturnedToBroker: The broker gives it to a scheduler that can decide, or back to this one.
    """
    if request.call and request.call.outranked:
        raise ReturnedToBroker(f"{error.dependency} is unavailable here; another scheduler may have it")
