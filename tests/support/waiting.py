"""Waiting for what another thread does."""

import time


def eventually(condition, seconds=60):
    """Ask again and again until the condition holds, for so long at most; its last value."""
    deadline = time.monotonic() + seconds
    while not (value := condition()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return value
