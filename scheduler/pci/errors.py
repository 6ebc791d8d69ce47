"""What can be wrong with stored device pools."""

from scheduler.errors import BerthError


class MalformedPools(BerthError):
    """The pools of a compute node cannot be read; ``reason`` says what is wrong with them."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
