"""The connection of one process to the model of Placement, in the place of keystoneauth's adapter.

Errors are those that keystoneauth and requests raise, so that the product's client tells them apart itself.
What the server does goes on when the client has given up or was killed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
import itertools
import random
from typing import Any

from keystoneauth1 import exceptions
import requests
import urllib3

from tools.simulation.placement import DONE, Answer, Placement, Write, bodies_of, concurrent, refusal
from tools.simulation.runtime import Runtime, Task

# What may happen to one request, and how often next to each other.
FAULTS = {
    "refused": 2,  # nobody listens; certainly not sent
    "keystone": 1,  # no token
    "reset before": 2,  # the connection breaks, nothing was done
    "reset after": 4,  # the connection breaks, the server goes on
    "slow": 4,  # the server takes its time, perhaps longer than the client waits
    "hang": 2,  # nothing is done, and no answer comes
    "500 before": 1,
    "500 after": 2,
    "html before": 1,  # of a proxy
    "html after": 2,
    "garbage": 1,  # done, and the answer is none
    "concurrent": 2,
    "denied": 1,
}

# Seconds after it is told to stop from which on a process claims nothing.
STOPPED = 1.0

# Seconds after which no server still works on a request.
LATEST = 25.0

INSTEAD = {"500 after": Answer(500, refusal(500, "deadlock").body), "garbage": Answer(200, b"\x00")}
BEFORE = {
    "500 before": refusal(500, "deadlock"),
    "html before": Answer(503, b"<html>Service Unavailable</html>"),
    "html after": Answer(502, b"<html>Bad Gateway</html>"),
    "concurrent": concurrent("Another thread concurrently updated the data. Please retry your update"),
    "denied": refusal(403, "not allowed"),
}


Done = Callable[[Answer | None], None]
"""Takes an answer; None: there will be none."""

Request = tuple[int, str, str]
"""The number of a request, its method and path."""


class Exchange:
    """One request on its way: ``answer`` is what the client would read; ``broken``: there will be none."""

    def __init__(self) -> None:
        self.answer: Answer | None = None
        self.broken = False
        self.waiters: list[Task] = []


class Server:
    """Placement behind its web server: takes time, and does one thing after the other for each request.

    Args:
        runtime: For the clock.
        placement: The model.
        seed: Of how long things take.
        told: Called with a text for each write that was carried out.

    Attributes:
        written_at: When it was last asked to write.
    """

    def __init__(
        self, runtime: Runtime, placement: Placement, seed: object, told: Callable[[str], None]
    ) -> None:
        self.placement = placement
        self._runtime = runtime
        self._random = random.Random(f"server {seed}")
        self._told = told
        self._open: dict[int, Done] = {}
        self._numbers = itertools.count()
        self.written_at = 0.0

    def crash(self) -> None:
        """End, as SIGKILL does: of requests in progress nothing more is done, and none has an answer."""
        requests, self._open = self._open, {}
        for done in requests.values():
            done(None)

    def handle(self, method: str, path: str, body: bytes | None, delay: float, answered: Done) -> None:
        """Begin to work on a request.

        Args:
            method: The HTTP method.
            path: Path and query.
            body: What was sent.
            delay: Seconds that it takes, in all.
            answered: Called with the answer; with None if there will be none.
        """
        number = next(self._numbers)
        self._open[number] = answered

        def done(answer: Answer) -> None:
            self._open.pop(number)(answer)

        if method != "GET":
            self.written_at = self._runtime.clock
        if method in {"PUT", "POST"}:
            write = self.placement.write(method, path, body or b"{}")
            self._go_on(write, list(self.placement.moments), (number, method, path), delay, done)
            return
        self._runtime.after(self._pause(delay), self._at_once, (number, method, path), done)

    def _at_once(self, request: Request, done: Done) -> None:
        number, method, path = request
        if number not in self._open:
            return
        if method == "DELETE":
            answer = self.placement.delete(path.rpartition("/")[2])
            self._told(f"DELETE {path}: {answer.status}")
        else:
            answer = self.placement.read(path)
        done(answer)

    def _go_on(
        self,
        write: Write,
        moments: list[Callable[[Write], None]],
        request: Request,
        delay: float,
        done: Done,
    ) -> None:
        number, method, path = request
        if number not in self._open:
            return
        if write.answer is None and moments:
            moment = moments.pop(0)

            def act() -> None:
                if number in self._open:
                    moment(write)
                self._go_on(write, moments, request, delay * self._random.random(), done)

            self._runtime.after(self._pause(delay), act)
            return
        answer = write.answer or DONE
        held = "; ".join(f"{uuid}: {_short(body)}" for uuid, body in write.bodies.items())
        self._told(f"{method} {path}: {answer.status} [{held}]")
        done(answer)

    def _pause(self, delay: float) -> float:
        return 0.001 + 0.01 * self._random.random() + delay * self._random.random() * 0.5


def _short(body: Any) -> str:
    return f"{sorted(body['allocations'])} generation {body['consumer_generation']}"


@dataclass
class Weather:
    """How likely a request meets a fault now, and which.

    Attributes:
        rate: Probability of a fault, 0 for none.
        kinds: Names from ``FAULTS``.
        of: Which requests meet faults: "writes", "consumers" (reads of what one holds), or "" for all.
        down: Nobody listens at all.
    """

    rate: float = 0.0
    kinds: tuple[str, ...] = tuple(FAULTS)
    of: str = ""
    down: bool = False


class Faults:
    """Draws the fault of each request."""

    def __init__(self, weather: Weather, seed: object) -> None:
        self.weather = weather
        self.random = random.Random(f"faults {seed}")

    def draw(self, method: str, path: str) -> str:
        """Return a name from ``FAULTS``, or ""."""
        if self.weather.down:
            return "refused"
        if (
            not (self._concerns(method, path) and self.weather.rate)
            or self.random.random() >= self.weather.rate
        ):
            return ""
        kinds = self.weather.kinds
        kind = self.random.choices(kinds, [FAULTS[kind] for kind in kinds])[0]
        return "" if kind == "concurrent" and method not in {"PUT", "POST"} else kind

    def _concerns(self, method: str, path: str) -> bool:
        writes = method != "GET"
        if self.weather.of == "consumers":
            return not writes and path.startswith("/allocations/")
        return writes or not self.weather.of

    def delay(self) -> float:
        """Return how much longer than usual a server takes, in seconds: mostly little."""
        return self.random.choice((0.5, 2.0, 8.0, LATEST)) * self.random.random()


class Response:
    """What the product's client uses of a response."""

    def __init__(self, answer: Answer) -> None:
        self.status_code = answer.status
        self.content = answer.body
        self.headers = answer.headers

    def iter_content(self, _size: int | None = None) -> Iterator[bytes]:
        """Yield the body."""
        yield self.content

    def close(self) -> None:
        """Do nothing: there is no connection."""


class Adapter:
    """What ``PlacementClient`` uses of keystoneauth's adapter.

    Args:
        runtime: For the clock.
        server: Where requests go.
        faults: What happens to them.
        told: Called with a text for each request.

    Attributes:
        late_claims: Those of processes that stop.
    """

    connect_retries = 0
    connect_retry_delay = 0.5
    raise_exc = False

    def __init__(self, runtime: Runtime, server: Server, faults: Faults, told: Callable[[str], None]) -> None:
        self.late_claims: list[str] = []
        self._runtime = runtime
        self._server = server
        self._faults = faults
        self._told = told

    def get_token(self) -> str:
        """Return a token; raises as keystoneauth does while Keystone is away."""
        if self._faults.weather.down and self._faults.random.random() < 0.2:
            self._no_keystone()
        return "token"

    def get_endpoint(self) -> str:
        """Return the address of Placement."""
        return "http://placement"

    def invalidate(self) -> bool:
        """Forget the catalog, of which there is none."""
        return True

    def request(
        self,
        path: str,
        method: str,
        headers: Any = None,
        timeout: Any = None,
        data: bytes | None = None,
        **_options: Any,
    ) -> Response:
        """Send one request and wait for its answer as long as ``timeout`` says."""
        self._runtime.step()
        if method != "GET":
            self._note_late_claim(method, path, data)
        fault = self._faults.draw(method, path)
        if fault:
            self._told(f"{method} {path} meets {fault}")
        self._runtime.sleep(0.002 * self._faults.random.random())
        if fault == "keystone":
            self._no_keystone()
        if fault == "refused":
            self._fail(requests.exceptions.ConnectionError(_not_listening(path)))
        if fault == "reset before":
            self._fail(requests.exceptions.ConnectionError("Connection aborted."))
        read = timeout[1] if isinstance(timeout, tuple) else timeout
        return self._await(self._exchange(method, path, data, fault), fault, read or 60.0)

    def _note_late_claim(self, method: str, path: str, data: bytes | None) -> None:
        """Note a claim of a process that was told to stop before; a release may leave something."""
        task = self._runtime.current
        late = self._runtime.clock > task.process.stopping_since + STOPPED
        if not (late and task.name.startswith("request_")):
            return
        placement = self._server.placement
        if placement.added(bodies_of(method, path, data or b"{}")):
            self.late_claims.append(f"{task.process} claims while it stops")

    def _exchange(self, method: str, path: str, data: bytes | None, fault: str) -> Exchange:
        exchange = Exchange()

        def done(answer: Answer | None) -> None:
            exchange.broken = answer is None
            exchange.answer = INSTEAD.get(fault, answer) if answer else None
            self._runtime.wake_all(exchange.waiters)

        if fault in BEFORE and fault != "html after":
            self._runtime.after(0.002, done, BEFORE[fault])
            return exchange
        if fault == "hang":
            return exchange
        delay = self._faults.delay() if fault in {"slow", "reset after", "html after"} else 0.0
        self._server.handle(method, path, data, delay, done)
        return exchange

    def _await(self, exchange: Exchange, fault: str, read: float) -> Response:
        if fault in {"reset after", "html after"}:
            # The connection, or the proxy, gives up at any time; the server may not have begun.
            self._runtime.sleep(min(read, self._faults.delay()))
            if fault == "html after":
                return Response(BEFORE[fault])
            self._fail(requests.exceptions.ConnectionError("Connection aborted."))
        if not (exchange.answer or exchange.broken or self._runtime.wait(exchange.waiters, read)):
            self._fail(requests.exceptions.ReadTimeout("Read timed out."))
        self._runtime.step()
        if exchange.answer is None:
            self._fail(requests.exceptions.ConnectionError("Connection aborted."))
        return Response(exchange.answer)

    def _fail(self, error: requests.exceptions.RequestException) -> None:
        try:
            raise error
        except requests.exceptions.Timeout as reason:
            raise exceptions.ConnectTimeout(f"Request timed out: {reason}") from reason
        except requests.exceptions.ConnectionError as reason:
            raise exceptions.ConnectFailure(f"Unable to establish connection: {reason}") from reason

    def _no_keystone(self) -> None:
        raise exceptions.DiscoveryFailure("Could not find versioned identity endpoints")


def _not_listening(path: str) -> urllib3.exceptions.MaxRetryError:
    cause = urllib3.exceptions.NewConnectionError(None, "Connection refused")
    return urllib3.exceptions.MaxRetryError(None, path, cause)
