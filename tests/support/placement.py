"""The model of Placement in place of a ``PlacementClient``, for tests without a server."""

from scheduler.placement.reply import Reply
from tools.simulation import placement as model
from tools.simulation.placement import Provider


def make_node(uuid, memory=4096, **fields):
    """A compute node that has memory, and no traits unless they are given."""
    return Provider(uuid, **{"inventories": {"MEMORY_MB": {"total": memory}}, "traits": set()} | fields)


class Placement(model.Placement):
    """A client of these providers.

    Attributes:
        asked: The paths of all GETs.
        failures: Path to an exception to raise, or a Reply to give, in place of the answer.
        before: Called with each path before it is answered.
    """

    def __init__(self, *providers):
        super().__init__(providers)
        self.asked = []
        self.failures = {}
        self.before = lambda path: None

    def get(self, path, version=None, context=None, *, search=False):
        self.asked.append(path)
        self.before(path)
        failure = self.failures.get(path)
        if isinstance(failure, Exception):
            raise failure
        answer = failure or self.read(path)
        return Reply(answer.status, answer.body, answer.headers)
