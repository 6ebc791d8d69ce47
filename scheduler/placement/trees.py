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
        self._children: dict[str, tuple[int, bool]] = {}  # generation, whether it has a mirrored class
        self._shares: dict[tuple[str, int], bool] = {}
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
        self._shares.clear()

    def update(self, listed: Iterable[ListedProvider], *, complete: bool) -> None:
        """Look at the children that are new or changed, some of them now, and at providers that share.

        Args:
            complete: Whether children are in the list; those of a partition's compute nodes are not.

        Raises:
            PlacementSilent: There was no response.
            QuestionRefused: The response is an error.
        """
        if complete:
            self._update_children({one.uuid: one.generation for one in listed if not one.is_root})
        sharing = read_list(self._client, list_path(required=[SHARING]))
        shares = any(self._does_share(one) for one in sharing)
        self.blocked = shares or any(mirrored for _, mirrored in self._children.values())

    def _update_children(self, generations: Mapping[str, int]) -> None:
        self._children = {uuid: child for uuid, child in self._children.items() if uuid in generations}
        changed = [
            uuid
            for uuid, generation in generations.items()
            if self._children.get(uuid, (None,))[0] != generation
        ]
        for uuid in changed[:READ_AT_ONCE]:
            self._children[uuid] = generations[uuid], self._has_mirrored(uuid)

    def _does_share(self, provider: ListedProvider) -> bool:
        key = provider.uuid, provider.generation
        if key not in self._shares:
            self._shares = {one: shares for one, shares in self._shares.items() if one[0] != provider.uuid}
            self._shares[key] = self._has_mirrored(provider.uuid)
        return self._shares[key]

    def _has_mirrored(self, uuid: str) -> bool:
        return is_mirrored((read_provider(self._client, uuid, "inventories") or ABSENT).inventories)
