"""Time that passes when a test says so."""


class Clock:
    """Stands in for ``time.monotonic``; a test moves ``now`` on."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now
