"""How long, and how often: every bound of a claim in one place."""

from dataclasses import dataclass
import random


@dataclass(frozen=True, slots=True)
class ClaimPolicy:
    """Seconds and counts. The defaults suit Placement behind a web server and a database; tests have less.

    :ivar claim: after this time a claim is given up, whatever it is doing.
    :ivar lock: for another claim of the same instance, or on the same host, to end.
    :ivar retry: shortest and longest random delay after a concurrent update.
    :ivar tries: PUTs for one claim that may end in a concurrent update.
    :ivar conflicts: times that the consumer may turn out to be different from what was expected.
    :ivar after_break: delays between looks after a broken connection or a 5xx. The server has the request and
        works on it for some milliseconds.
    :ivar after_timeout: the same after a read timeout: it may be at it for as long as its own limits allow.
    :ivar resend: times that a PUT without an answer or effect is sent again.
    :ivar late: after this time, a write without an answer is not expected to be carried out any more.
    :ivar cleanup: delays between attempts at a clean-up in the background; the last one repeats.
    :ivar cleanup_limit: after this time a clean-up is left to the operator, with an error line.
    """

    claim: float = 120.0
    lock: float = 30.0
    retry: tuple[float, float] = (0.05, 0.5)
    tries: int = 8
    conflicts: int = 4
    after_break: tuple[float, ...] = (0.0, 0.3, 1.0)
    after_timeout: tuple[float, ...] = (0.0, 1.0, 2.0, 4.0, 8.0)
    resend: int = 2
    late: float = 30.0
    cleanup: tuple[float, ...] = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)
    cleanup_limit: float = 1800.0

    def retry_delay(self) -> float:
        """A random delay, so that those who collided do not do so again."""
        return random.uniform(*self.retry)
