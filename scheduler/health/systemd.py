"""Notifications to systemd, as ``sd_notify(3)`` describes them.

oslo.service can send ``READY=1`` only.
"""

from collections.abc import Callable, MutableMapping
import os
import socket
import time

from oslo_log import log as logging

LOG = logging.getLogger(f"nova.{__name__}")


class Notifier:
    """Sends the state of the service to systemd; does nothing without a notify socket of systemd.

    Attributes:
        watchdog_interval: Seconds after which systemd restarts a service that does not feed its watchdog;
            None if it has none.
    """

    def __init__(
        self,
        environment: MutableMapping[str, str] = os.environ,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read what systemd wants, and remove it from the environment, which other processes inherit.

        Args:
            clock: The clock of CLOCK_MONOTONIC, in seconds.
        """
        self._clock = clock
        self._address = environment.pop("NOTIFY_SOCKET", "")
        interval = environment.pop("WATCHDOG_USEC", "")
        watched = environment.pop("WATCHDOG_PID", "")
        mine = watched in {"", str(os.getpid())}
        self.watchdog_interval = int(interval) / 1e6 if mine and interval.isdigit() else None
        self._fed = float("-inf")

    def feed_watchdog(self) -> None:
        """Report that the service works, three times within the interval of the watchdog."""
        if self.watchdog_interval and self._clock() - self._fed >= self.watchdog_interval / 3:
            self._fed = self._clock()
            self.notify("WATCHDOG=1")

    def notify(self, state: str) -> None:
        """Send a state, such as ``READY=1``."""
        if not self._address:
            return
        # an @ stands for the zero byte of an abstract name
        address = f"\0{self._address[1:]}" if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            try:
                sender.connect(address)
                sender.send(state.encode())
            except OSError as error:
                LOG.debug("systemd was not notified: %s", error)
