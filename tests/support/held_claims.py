"""A stand-in for the claims that depend on a reply."""


class Claims:
    """What a request claimed: notes its end."""

    def __init__(self):
        self.ends = []

    def keep(self):
        self.ends.append("kept")

    def release(self):
        self.ends.append("released")

    def doubt(self):
        self.ends.append("left in doubt")
