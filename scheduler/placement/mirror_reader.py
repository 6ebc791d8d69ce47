"""Reading what Placement has of all compute nodes, for the mirror.

A round reads the list of all providers with their generations. Nodes that changed for a reason which is not
known are read again one by one; if there are many, the wide query is sent once. Nodes that the wide answer
lacks are full, or have unit limits, or Placement has cut the answer. Those with free memory are read one by
one before a query is answered; of the others some in each round.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from oslo_log import log

from scheduler.logs import RateLimitedLogger
from scheduler.placement.client import PlacementClient
from scheduler.placement.errors import QuestionRefused
from scheduler.placement.mirror import Mirror, Reading, read_wide, wide_query
from scheduler.placement.providers import ABSENT, STATE, ListedProvider, list_path, read_list, read_provider
from scheduler.placement.trees import Trees
from scheduler.request.query import MICROVERSION

LOG = log.getLogger(f"nova.{__name__}")

# Seconds between two wide questions: at most because many nodes have changed, and at least in any case. The
# latter finds what does not raise a generation: allocations that were deleted with DELETE.
MOVED_WIDE_INTERVAL = 60.0
WIDE_INTERVAL = 600.0

# Nodes that are read one by one in a round: so many, or this share of all; if more have changed the wide
# question costs less. Of nodes without free memory so many are read in a round.
READ_SINGLY = 30
READ_SHARE = 0.01
READ_FULL = 10

# MiB that a node with a min_unit or step_size of memory gives to one instance, unless these are unusual.
USUAL_MEMORY = 1024

# Seconds for which nodes are read one by one in a round.
READ_TIME = 20.0

# Traits that need not be looked up: nearly every query forbids this one.
ALWAYS_THERE = frozenset({"COMPUTE_STATUS_DISABLED"})


class MirrorReader:
    """Reads the nodes of a mirror. One thread reads; any may look at the attributes.

    Attributes:
        trees: Whether other providers than compute nodes matter.
        traits: Traits that exist, as far as queries have forbidden them since the last wide question.
        wide_at: When the round of the last wide question began; -inf: the next round asks it.
        unread: Nodes with free memory that are not known yet, and their generations.
        list_seconds: How long the last list took.
    """

    def __init__(
        self, client: PlacementClient, known: Mirror, aggregates: Callable[[], frozenset[str] | None]
    ) -> None:
        """Set up; nothing is read yet.

        Args:
            known: Gets what is read.
            aggregates: Returns the aggregates whose nodes are mirrored; None: all nodes.
        """
        self._client = client
        self._known = known
        self._clock = known.clock
        self._aggregates = aggregates
        self.trees = Trees(client)
        self.traits = ALWAYS_THERE
        self.wide_at = float("-inf")
        self.unread: dict[str, int] = {}
        self.list_seconds = 0.0
        self._left_out: dict[str, int] = {}  # nodes that are not known, without free memory or with limits
        self._limited: frozenset[str] = frozenset()
        self._warn = RateLimitedLogger(LOG, 3600.0, known.clock)

    @property
    def full_nodes(self) -> frozenset[str]:
        """The nodes without free memory that are not known."""
        return frozenset(self._left_out) - self._limited

    @property
    def unread_nodes(self) -> list[str]:
        """The nodes with free memory that are not known yet."""
        return [*self.unread, *self.limited_nodes]

    @property
    def limited_nodes(self) -> list[str]:
        """The nodes that are not known since their limits refuse one MiB, though they have free memory."""
        return [uuid for uuid in self._left_out if uuid in self._limited]

    @property
    def list_path(self) -> str:
        """The path of the list of all nodes."""
        return list_path(member_of=self._aggregates() or ())

    def members_of(self, aggregate: str) -> list[str]:
        """Return the nodes in an aggregate; raises as ``read_list``."""
        return [one.uuid for one in read_list(self._client, list_path(member_of=[aggregate]))]

    def has_seen(self, node: str) -> bool:
        """Whether a node is mirrored, or was seen in a list of Placement and has no free memory."""
        return node in self._known or node in self.unread or node in self._left_out

    def note_freed(self, nodes: Iterable[str]) -> None:
        """Read nodes in the next round though they were full."""
        for node in nodes:
            self._left_out.pop(node, None)

    def run_round(self) -> None:
        """Compare the mirror with the generations in Placement, and read what changed.

        Raises:
            PlacementError: Placement does not answer.
        """
        reading = self._known.begin_reading()
        listed = read_list(self._client, self.list_path)
        self.list_seconds = self._clock() - reading.begun
        roots = {one.uuid: one.generation for one in listed if one.is_root}
        if reading.begun >= self.wide_at + WIDE_INTERVAL:
            self._read_wide(reading, listed, roots)
        else:
            self._follow(reading, listed, roots)
        self.trees.update(listed, complete=not self._aggregates())

    def read_limited(self) -> None:
        """Read the nodes one by one whose limits refuse one MiB; raises as ``run_round``."""
        self._read_nodes(self.limited_nodes)

    def read_only(self, nodes: Collection[str]) -> None:
        """Read these nodes one by one, in place of a round; raises as that."""
        listed = [one for one in read_list(self._client, self.list_path) if one.root_provider_uuid in nodes]
        self._read_nodes(nodes)
        self.trees.update(listed, complete=not self._aggregates())

    def _follow(self, reading: Reading, listed: Sequence[ListedProvider], roots: Mapping[str, int]) -> None:
        """Read again what changed for a reason that is not known, and what is new."""
        moved = self._known.compare(reading, roots)
        appeared = [
            uuid
            for uuid, generation in roots.items()
            if not (uuid in self._known or uuid in self.unread or self._left_out.get(uuid) == generation)
        ]
        most = max(READ_SINGLY, int(READ_SHARE * len(roots)))
        if len(moved) + len(appeared) > most and self._clock() >= self.wide_at + MOVED_WIDE_INTERVAL:
            self._read_wide(reading, listed, roots)
            return
        full = [uuid for uuid in list(self._left_out) if uuid not in appeared][:READ_FULL]
        self._read_nodes([*appeared, *self.unread, *moved][:most] + full)

    def _read_wide(
        self, reading: Reading, listed: Sequence[ListedProvider], roots: Mapping[str, int]
    ) -> None:
        """Ask the wide question, and use its answer."""
        members = {one: self.members_of(one) for one in self._known.known_aggregates}
        path = f"/allocation_candidates?{wide_query(self._aggregates() or ())}"
        reply = self._client.get(path, MICROVERSION, search=True)
        if reply.status != 200:
            raise QuestionRefused(reply.summary)
        wide = read_wide(reply.body)
        self._known.publish(wide.nodes, reading, roots, members)
        self.trees.learn(wide.children, listed)
        self.wide_at, self.traits = reading.begun, ALWAYS_THERE
        self._note_absent({uuid: one for uuid, one in roots.items() if uuid not in self._known})
        self._report_cut(len(wide.nodes))

    def _note_absent(self, absent: Mapping[str, int]) -> None:
        """Note which nodes the wide answer lacks although they have free memory, and which others."""
        free = self._with_free(1) if absent else frozenset()
        self.unread = {uuid: one for uuid, one in absent.items() if uuid in free}
        left_out = {uuid: one for uuid, one in absent.items() if uuid not in free}
        self._limited = self._with_free(USUAL_MEMORY) & left_out.keys() if left_out else frozenset()
        # those that have free memory are read first
        self._left_out = dict(sorted(left_out.items(), key=lambda one: one[0] not in self._limited))

    def _with_free(self, memory_mb: int) -> frozenset[str]:
        path = list_path({"MEMORY_MB": memory_mb}, member_of=self._aggregates() or ())
        return frozenset(one.uuid for one in read_list(self._client, path))

    def _report_cut(self, named: int) -> None:
        """Warn if the wide answer was cut: a node with free memory is not in it, and has not changed."""
        if not self.unread:
            return
        uuid, generation = next(iter(self.unread.items()))
        if (read_provider(self._client, uuid, "traits") or ABSENT).generation != generation:
            return
        total = named + len(self.unread)
        self._warn.warning(
            "cut",
            "Placement names %d of %d compute nodes with free memory in one answer: in its configuration "
            "[placement]/max_allocation_candidates is too low; set it to %d or more. Reading the others "
            "one by one; requests query Placement until this is done",
            named,
            total,
            total,
        )

    def _read_nodes(self, uuids: Iterable[str]) -> None:
        """Read nodes one by one, and add those that are not mirrored yet; what takes too long waits."""
        uuids = list(dict.fromkeys(uuids))
        self._known.add(uuids)
        end = self._clock() + READ_TIME
        for uuid in uuids:
            begun = self._clock()
            if begun > end:
                return
            state = read_provider(self._client, uuid, *STATE)
            if state is None:
                self._known.forget(uuid)
            else:
                self._known.correct(state, begun)
            self.unread.pop(uuid, None)
            self._left_out.pop(uuid, None)
