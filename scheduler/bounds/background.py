"""Work that is repeated in a background thread for as long as a process lives."""

from collections.abc import Callable
import threading

from oslo_log import log as logging

LOG = logging.getLogger(f"nova.{__name__}")

#: Seconds between a round that raised an error and the next one.
PAUSE_AFTER_ERROR = 1.0

#: Seconds that ``stop`` waits for a round that is under way.
STOP_TIMEOUT = 1.0

Wait = Callable[[threading.Event, float], bool]
"""Waits for an event, at most so many seconds; True if the event is set."""


class BackgroundLoop:
    """Calls a function again and again in a daemon thread of its own.

    An error that the function raises is logged, and the next round follows after a pause: the loop ends only
    when it is stopped. All methods may be called by any thread.
    """

    def __init__(
        self,
        name: str,
        work: Callable[[], float],
        *,
        pause_after_error: float = PAUSE_AFTER_ERROR,
        wait: Wait = threading.Event.wait,
    ) -> None:
        """Describe the loop; no thread is started yet.

        Args:
            name: The name of the thread, which log lines use too.
            work: One round. Returns the seconds until the next one.
            pause_after_error: Seconds until the next round if a round raises an error. ``wake`` does not
                shorten this pause, so that an error that lasts cannot keep a processor busy.
            wait: How to wait, for tests.
        """
        self._name = name
        self._work = work
        self._pause_after_error = pause_after_error
        self._wait = wait
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._wake = threading.Event()

    @property
    def running(self) -> bool:
        """Whether the thread is alive."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, delay: float = 0.0) -> None:
        """Start the thread; does nothing while it is running.

        Args:
            delay: Seconds until the first round. ``wake`` ends them early.

        Raises:
            RuntimeError: The system has no thread left. A later call tries again.
        """
        with self._lock:
            if self.running and not self._stopped.is_set():
                return
            # New events: a round of an earlier thread may still be under way, and must find itself stopped.
            stopped, wake = threading.Event(), threading.Event()
            thread = threading.Thread(
                target=self._run, args=(delay, stopped, wake), name=self._name, daemon=True
            )
            self._stopped, self._wake = stopped, wake
            thread.start()
            self._thread = thread

    def wake(self) -> None:
        """Let the next round follow at once; during a round: let another one follow it at once."""
        self._wake.set()

    def stop(self, timeout: float = STOP_TIMEOUT) -> bool:
        """End the loop after the round that is under way.

        Args:
            timeout: Seconds to wait for that round. A daemon thread that needs longer is left behind.

        Returns:
            Whether the thread has ended.
        """
        with self._lock:
            thread = self._thread
            self._stopped.set()
            self._wake.set()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout)
        return not self.running

    def _run(self, delay: float, stopped: threading.Event, wake: threading.Event) -> None:
        self._wait(wake, delay)
        while not stopped.is_set():
            wake.clear()
            try:
                delay = self._work()
            except BaseException:  # also SystemExit, which would end the thread without a word
                LOG.exception(
                    "Background loop %s failed; its next round starts in %g s",
                    self._name,
                    self._pause_after_error,
                )
                self._wait(stopped, self._pause_after_error)
            else:
                self._wait(wake, delay)


MakeLoop = Callable[[str, Callable[[], float]], BackgroundLoop]
"""Makes the background loop of a name and a round."""
