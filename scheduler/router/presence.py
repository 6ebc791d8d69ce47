"""Which partitions answer: those that do not are left out until they answer a ping."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
import threading

from oslo_log import log as logging

from scheduler.bounds.background import BackgroundLoop
from scheduler.conf.partitions import Partition

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between two pings of a partition that does not answer.
PING_INTERVAL = 1.0

#: Seconds that the thread sleeps while all answer; one that does not wakes it.
IDLE = 3600.0


class Presence:
    """Which partitions answer. Any thread may use it."""

    def __init__(self, partitions: Iterable[Partition], ping: Callable[[Partition], bool]) -> None:
        """Begin with all partitions taken to answer.

        Args:
            ping: Returns whether a scheduler of a partition answers; takes a few seconds at most.
        """
        self._partitions = tuple(partitions)
        self._ping = ping
        self._silent: set[str] = set()
        self._changed = threading.Condition()
        self._loop = BackgroundLoop("partitions", self.look)

    def start(self) -> None:
        self._loop.start()

    def stop(self) -> None:
        self._loop.stop(0)

    def hear(self, partition: Partition) -> None:
        if partition.name not in self._silent:
            return
        with self._changed:
            self._silent.discard(partition.name)
            self._changed.notify_all()
        LOG.info("Partition %s is available again", partition.name)

    def miss(self, partition: Partition) -> None:
        with self._changed:
            known = partition.name in self._silent
            self._silent.add(partition.name)
        if not known:
            LOG.warning("Partition %s is unavailable; skipping it until it answers", partition.name)
        self._loop.wake()

    def wait_for_one_of(self, partitions: Iterable[Partition], timeout: float) -> Partition | None:
        """Wait for one of these partitions; return the first that replies, or None at the end of the time."""
        wanted = tuple(partitions)

        def find() -> Partition | None:
            return next((each for each in wanted if each.name not in self._silent), None)

        with self._changed:
            return self._changed.wait_for(find, max(0.0, timeout))

    def look(self) -> float:
        """Ping all silent partitions at the same time; return the seconds until the next round."""
        if silent := [each for each in self._partitions if each.name in self._silent]:
            with ThreadPoolExecutor(len(silent), thread_name_prefix="ping") as pool:
                list(pool.map(self._look_at, silent))
        return PING_INTERVAL if self._silent else IDLE

    def _look_at(self, partition: Partition) -> None:
        if self._ping(partition):
            self.hear(partition)
