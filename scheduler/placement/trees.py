"""Whether only compute nodes provide mirrored classes, or children of trees or sharing providers do too.

Where they do, an answer of the mirror would not be exact, and all queries go to Placement
(spec: placement-and-workflow 2.2).
"""

from collections.abc import Iterable, Mapping

from scheduler.placement.answer import SHARING
from scheduler.placement.client import PlacementClient
from scheduler.placement.mirror import is_mirrored
from scheduler.placement.providers import ABSENT, ListedProvider, list_path, read_list, read_provider

# Providers whose inventories are read in one round.
READ_AT_ONCE = 100


class Trees:
    """What is known of providers that are no compute nodes. One thread updates it.

    Attributes:
        blocked: Whether another provider than a compute node has a mirrored class.
    """

    def __init__(self, client: PlacementClient) -> None:
        """Know nothing yet."""
        self._client = client
        # The generation of each, and whether it has a mirrored class: of children, and of what shares.
        self._children: dict[str, tuple[int, bool]] = {}
        self._sharing: dict[str, tuple[int, bool]] = {}
        self.blocked = False

    def learn(self, children: Mapping[str, bool], listed: Iterable[ListedProvider]) -> None:
        """Take over what a wide answer says of children; those that it does not name are of full nodes.

        Args:
            children: For each child that it names, whether it has a mirrored class.
            listed: All providers, as of before.
        """
        generations = {one.uuid: one.generation for one in listed if not one.is_root}
        named = {uuid: (generations.get(uuid, -1), mirrored) for uuid, mirrored in children.items()}
        self._children = {uuid: (generation, False) for uuid, generation in generations.items()} | named
        # One that was created again may have the same generation.
        self._sharing.clear()

    def update(self, listed: Iterable[ListedProvider], *, complete: bool) -> None:
        """Look at the children that are new or changed, some of them now, and at providers that share.

        Args:
            complete: Whether children are in the list; those of a partition's compute nodes are not.

        Raises:
            PlacementSilent: There was no response.
            QuestionRefused: The response is an error.
        """
        if complete:
            generations = {one.uuid: one.generation for one in listed if not one.is_root}
            self._look_at(self._children, generations, READ_AT_ONCE)
        sharing = read_list(self._client, list_path(required=[SHARING]))
        self._look_at(self._sharing, {one.uuid: one.generation for one in sharing}, len(sharing))
        known = [*self._children.values(), *self._sharing.values()]
        self.blocked = any(mirrored for _, mirrored in known)

    def _look_at(self, known: dict[str, tuple[int, bool]], generations: Mapping[str, int], most: int) -> None:
        """Forget providers that are gone, and read at most so many of those that are new or changed."""
        for uuid in known.keys() - generations.keys():
            del known[uuid]
        changed = [uuid for uuid, each in generations.items() if known.get(uuid, (None,))[0] != each]
        for uuid in changed[:most]:
            inventories = (read_provider(self._client, uuid, "inventories") or ABSENT).inventories
            known[uuid] = generations[uuid], is_mirrored(inventories)
