"""The state of the master and its workers in shared memory."""

from typing import Any

from scheduler.health.monitor import Monitor


class SharedState:
    """The state that the master and its workers share.

    Attributes:
        accepted: How many changes of the options the master has taken over.
        taken_over: How many of them this process has; not shared: a worker begins with those that the master
            had when it was forked.
        reloads: How often the master has read the options again.
        monitor: Where workers report.
    """

    def __init__(self, context: Any, monitor: Monitor) -> None:
        """Create it before workers are forked; ``context`` is the multiprocessing context."""
        self.monitor = monitor
        # without locks, which a killed worker would keep
        self.accepted = context.RawValue("L", 0)
        self.taken_over = 0
        self.reloads = context.RawValue("L", 0)
