"""Users of the API at the same time, each of whose operations has an outcome: the load of all scenarios."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
import random
import threading
import time
from typing import Any, Self

from tools.openstack.api import ERRORS, Api
from tools.rig.service import until

#: What a user does with a server.
OPERATIONS: dict[str, Callable[[Api, str], object]] = {
    "resize": Api.resize,
    "migrate": Api.migrate,
    "live-migrate": Api.live_migrate,
    "shelve": Api.shelve,
    "rebuild": Api.rebuild,
}


@dataclass(frozen=True)
class Outcome:
    """An operation as its user saw it.

    Attributes:
        operation: Its name.
        phase: The phase of the scenario in which it began.
        seconds: The time until the server had its new state.
        error: Why it failed, or None.
    """

    operation: str
    phase: str
    seconds: float
    error: str | None


class Users:
    """A context manager, at whose end all users have ended what they did.

    ``outcomes`` are the operations that have ended; ``phase`` is what runs now.
    """

    def __init__(self, api: Api, callers: int, seed: int = 1, zones: Sequence[str] = ()) -> None:
        """Describe so many users, who boot servers anywhere and in zones."""
        self.outcomes: list[Outcome] = []
        self.phase = ""
        self._api = api
        self._callers = callers
        self._random = random.Random(seed)
        self._wishes = [{}, *({"availability_zone": zone} for zone in zones)]
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(callers)
        self._working: list[Future[None]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        self._pool.shutdown()
        if exc_info[0] is None:
            self._raise()

    def boot(
        self, prefix: str, number: int, times: Sequence[float] = (), **more: Any
    ) -> Iterator[str | None]:
        """Boot servers, each as soon as a user is free, and not before its time.

        Args:
            prefix: What their names begin with.
            number: How many.
            times: Of each, in seconds from now on.
            more: What the servers are.

        Returns:
            The UUID of each; None: its request was not accepted.
        """
        begun = time.monotonic()

        def one(index: int) -> str | None:
            if times:
                time.sleep(max(0, begun + times[index] - time.monotonic()))
            return self._did("boot", lambda: self._api.boot(f"{prefix}{index}", **more))

        return self._pool.map(one, range(number))

    def work(self) -> None:
        """Let each user boot a server, do something with it, delete it, and begin again, until the end."""
        self._working = [self._pool.submit(self._serve, caller) for caller in range(self._callers)]

    def _raise(self) -> None:
        """Raise what has ended a user that works, which is an error of this program."""
        for each in self._working:
            if each.done():
                each.result()

    def wait_for_more(self, number: int, patience: float) -> None:
        """Wait until so many more operations have ended.

        Raises:
            RuntimeError: They do not in time.
        """
        wanted = len(self.outcomes) + number

        def enough() -> bool:
            self._raise()
            return len(self.outcomes) >= wanted

        until(enough, f"Fewer than {wanted} operations have ended", patience)

    def _serve(self, caller: int) -> None:
        count = 0
        while not self._ended.is_set():
            count += 1
            self._visit(f"user-{caller}-{count}", **self._random.choice(self._wishes))

    def _visit(self, name: str, **more: Any) -> None:
        server = ""

        def boot() -> object:
            nonlocal server
            server = self._api.boot(name, **more)
            return self._api.wait(server, "ACTIVE")

        if self._did("boot", boot):
            operation = self._random.choice(list(OPERATIONS))
            self._did(operation, lambda: OPERATIONS[operation](self._api, server))
        if server:
            self._did("delete", lambda: self._api.delete(server))

    def _did(self, operation: str, act: Callable[[], Any]) -> Any:
        """Do something, keep its outcome, and return what it returns; None: it failed."""
        begun, phase, found, error = time.monotonic(), self.phase, None, None
        try:
            found = act()
        except ERRORS as problem:
            error = str(problem)
        self.outcomes.append(Outcome(operation, phase, time.monotonic() - begun, error))
        return found


def table(outcomes: Iterable[Outcome]) -> list[str]:
    """Return a line for each phase: operations that were done, and those that failed."""
    found = list(outcomes)
    phases = list(dict.fromkeys(each.phase for each in found))
    names = ("boot", *OPERATIONS, "delete")
    lines = ["".join([f"{'while':34}", *(f"{name:>13}" for name in names), f"{'failed':>8}"])]
    for phase in phases:
        chosen = [each for each in found if each.phase == phase]
        counts = Counter(each.operation for each in chosen)
        failed = sum(each.error is not None for each in chosen)
        lines.append("".join([f"{phase:34}", *(f"{counts[name]:13}" for name in names), f"{failed:8}"]))
    return lines
