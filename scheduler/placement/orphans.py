"""Instances of which Placement keeps a record without allocations (spec: placement-and-workflow 4.5)."""


class Orphans:
    """Left behind by a claim on a provider that does not exist; the next claim has to say so.

    Only a hint that saves two requests, so a bounded number is kept.
    """

    CAPACITY = 10_000

    def __init__(self) -> None:
        self._known: dict[str, None] = {}

    def generation(self, uuid: str) -> int | None:
        """What the next claim has to give as the consumer's generation."""
        return 0 if uuid in self._known else None

    def add(self, uuid: str) -> None:
        """Remember one, and forget the oldest if there are too many."""
        self._known[uuid] = None
        if len(self._known) > self.CAPACITY:
            self._known.pop(next(iter(self._known)), None)

    def discard(self, uuid: str) -> None:
        """It has allocations now."""
        self._known.pop(uuid, None)
