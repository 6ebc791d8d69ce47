"""Every bound of a write of allocations, with the reason for its value, and the clock that writes go by."""

from collections.abc import Callable
from dataclasses import dataclass
import random
import time

from scheduler.bounds.waits import waiting_for

#: Seconds after which a write without a response is not carried out any more: the usual time limit of web
#: servers and proxies in front of Placement.
LATE_WRITE_WINDOW = 30.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Clock, sleep and randomness of writes.

    Attributes:
        monotonic: Returns the time in seconds.
        sleep: Waits for a number of seconds.
        uniform: Returns a random number between two bounds.
    """

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    uniform: Callable[[float, float], float] = random.uniform

    def pause(self, seconds: float) -> None:
        """Wait before a write is sent again, or before what became of it is read."""
        with waiting_for("the next attempt of a write to Placement"):
            self.sleep(seconds)


@dataclass(frozen=True, slots=True)
class WritePolicy:
    """Time limits and delays in seconds, and numbers of tries.

    The defaults suit Placement behind a web server and a database.

    Attributes:
        queue_timeout: How long a write waits for others to be sent before it. It was not sent then.
        retry_delay: Shortest and longest random delay after a concurrent update. It is random so that writes
            that collided once do not collide again (spec: placement-and-workflow 4.9 step 4).
        late_delay: After a refusal, while a lost try may yet be carried out. One that does not end soon holds
            up the database, which then needs few requests.
        outage_delay: After a lost try, while Placement cannot be reached.
        concurrent_update_tries: Tries that may end in a concurrent update. Nova makes 4 with longer delays;
            under load a third of the writes collide, so that 8 rarely fail.
        consumer_conflicts: How often a write starts again from what the consumer turned out to hold. One is
            a record without allocations; a fifth can only come from another writer.
        reads_after_reset: Delays before the reads that follow a broken connection or a 5xx response. The
            server has the request, and works on it for some milliseconds (spec: placement-and-workflow 4.6).
        reads_after_timeout: The same after a read timeout. The server may work on the request for as long as
            its own time limits allow.
        late_write_window: After this time, a try without a response is not expected to be carried out. It is
            the usual time limit of web servers and proxies in front of Placement.
        reads_at_once: Consumers that are read at the same time. Placement serves a few requests at once, and
            others want some of them.
    """

    queue_timeout: float = 30.0
    retry_delay: tuple[float, float] = (0.05, 0.5)
    late_delay: float = 4.0
    outage_delay: float = 1.0
    concurrent_update_tries: int = 8
    consumer_conflicts: int = 4
    reads_after_reset: tuple[float, ...] = (0.0, 0.3, 1.0)
    reads_after_timeout: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 8.0)
    late_write_window: float = LATE_WRITE_WINDOW
    reads_at_once: int = 4
