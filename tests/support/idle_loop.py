"""A background loop without a thread: a test runs its rounds."""


class IdleLoop:
    """Takes the place of ``BackgroundLoop``.

    Attributes:
        work: Does a round.
        running: Whether it was started.
        woken: Whether it was woken; a test sets it back.
    """

    def __init__(self, name="", work=None):
        self.work = work
        self.running = self.woken = False

    def take(self, _name, work):
        """Do this work; in the place of the class, for a test that needs the loop."""
        self.work = work
        return self

    def start(self):
        self.running = True

    def stop(self, timeout):
        self.running = False

    def wake(self):
        self.woken = True
