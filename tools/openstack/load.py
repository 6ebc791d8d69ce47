"""Operations on servers by several users at the same time, each with its outcome."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
import random
import threading
import time

from tools.openstack.api import Api, ApiError, NotReachedError
from tools.openstack.layout import Layout


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


class Users(threading.Thread):
    """Users that boot servers, do something with each, and delete it.

    ``outcomes`` are the operations that have ended; ``phase`` is what runs now.
    """

    def __init__(self, layout: Layout, callers: int, seed: int) -> None:
        """Describe the users; ``start`` lets them begin."""
        super().__init__(daemon=True)
        self.outcomes: list[Outcome] = []
        self.phase = ""
        self._api = Api(layout)
        self._zones = sorted({layout.zone_of(host) for host in layout.hosts})
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._callers = [threading.Thread(target=self._serve, args=(number,)) for number in range(callers)]

    def run(self) -> None:
        """Let each user work in a thread."""
        for thread in self._callers:
            thread.start()
        for thread in self._callers:
            thread.join()

    def finish(self) -> None:
        """Let the users end what they do, and wait for it."""
        self._ended.set()
        self.join()

    def wait_for_more(self, number: int, patience: float) -> None:
        """Wait until so many more operations have ended.

        Raises:
            RuntimeError: They do not in time.
        """
        wanted = len(self.outcomes) + number
        deadline = time.monotonic() + patience
        while len(self.outcomes) < wanted:
            if time.monotonic() > deadline:
                raise RuntimeError(f"{len(self.outcomes)} operations have ended, not {wanted}")
            time.sleep(0.2)

    def _serve(self, number: int) -> None:
        count = 0
        while not self._ended.is_set():
            count += 1
            self._one(f"user-{number}-{count}")

    def _one(self, name: str) -> None:
        more = self._random.choice([{}, {"availability_zone": self._random.choice(self._zones)}])
        server: str | None = None

        def boot() -> None:
            nonlocal server
            server = self._api.boot(name, **more)
            self._api.wait(server, "ACTIVE")

        if self._did("boot", boot):
            operation = self._random.choice(list(OPERATIONS))
            self._did(operation, lambda: OPERATIONS[operation](self._api, server))
        if server:
            self._did("delete", lambda: self._api.delete(server))

    def _did(self, operation: str, act: Callable[[], None]) -> bool:
        begun, phase, error = time.monotonic(), self.phase, None
        try:
            act()
        except (ApiError, NotReachedError) as problem:
            error = str(problem)
        self.outcomes.append(Outcome(operation, phase, time.monotonic() - begun, error))
        return error is None


def _resize(api: Api, server: str) -> None:
    api.act(server, "resize", {"flavorRef": api.flavors()["large"]})
    api.wait(server, "VERIFY_RESIZE")
    api.act(server, "confirmResize")
    api.wait(server, "ACTIVE")


def _migrate(api: Api, server: str) -> None:
    api.act(server, "migrate", {"host": None})
    api.wait(server, "VERIFY_RESIZE")
    api.act(server, "confirmResize")
    api.wait(server, "ACTIVE")


def _live_migrate(api: Api, server: str) -> None:
    before = api.host_of(server)
    api.act(server, "os-migrateLive", {"host": None, "block_migration": "auto"})
    if api.wait(server, "ACTIVE")["OS-EXT-SRV-ATTR:host"] == before:
        raise NotReachedError(f"server {server} did not leave {before}")


def _shelve(api: Api, server: str) -> None:
    api.act(server, "shelve")
    api.wait(server, "SHELVED_OFFLOADED")
    api.act(server, "unshelve")
    api.wait(server, "ACTIVE")


def _rebuild(api: Api, server: str) -> None:
    api.act(server, "rebuild", {"imageRef": api.image()})
    api.wait(server, "ACTIVE")


OPERATIONS = {
    "resize": _resize,
    "migrate": _migrate,
    "live-migrate": _live_migrate,
    "shelve": _shelve,
    "rebuild": _rebuild,
}


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
