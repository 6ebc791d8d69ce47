"""What is to be claimed, and what is known of the consumer beforehand."""

from collections.abc import Collection, Container
from dataclasses import dataclass, replace
import math
from typing import Any

from scheduler.claims.result import OwnWrite
from scheduler.placement.allocations import ConsumerAllocations, Owner
from scheduler.placement.answer import AllocationCandidate


@dataclass(frozen=True, slots=True)
class ClaimRequest:
    """What is to be claimed.

    Attributes:
        uuid: The instance.
        candidate: What it shall hold.
        owner: Whose quota it counts against.
        context: The context of the request, for Placement's log.
        evacuating_from: UUIDs of compute nodes whose allocations the instance keeps besides.
        host: The name of the candidate's host; "" if it is not known.
        deadline: When the caller stops waiting for the reply; seconds of the clock of claims.
        message_id: The identity of the message that the claim is for; "" if there is none.
        nodes: UUIDs of all compute nodes. What an evacuated instance holds on a node that it does not
            leave is from another request.
        redelivered: Whether an earlier delivery of the message may have written the same for the instance.
        alone: Whether the request is for this instance alone.
    """

    uuid: str
    candidate: AllocationCandidate
    owner: Owner
    context: Any = None
    evacuating_from: Collection[str] = ()
    host: str = ""
    deadline: float = math.inf
    message_id: str = ""
    nodes: Container[str] = ()
    redelivered: bool = False
    alone: bool = True

    @property
    def plain(self) -> OwnWrite:
        """The first write of the claim, for a consumer that holds nothing."""
        return OwnWrite(ConsumerAllocations(self.candidate.allocations, 1, self.owner))

    @property
    def repeated(self) -> OwnWrite:
        """The second write of the claim of a redelivered request."""
        return OwnWrite(replace(self.plain.made, generation=2))

    @property
    def host_label(self) -> str:
        """The host for log lines: its name if known, otherwise the UUID of the root provider."""
        return self.host or self.candidate.root


@dataclass(frozen=True, slots=True)
class ConsumerState:
    """What is known of the consumer beforehand.

    Attributes:
        late_until: Until then an earlier write may still be carried out that had no clear response; seconds
            of the clock of claims.
        earlier: The writes of earlier claims that are to be given back.
        elsewhere: Those of them that another process gives back, also if this claim succeeds.
    """

    late_until: float = -math.inf
    earlier: tuple[OwnWrite, ...] = ()
    elsewhere: tuple[OwnWrite, ...] = ()


NEW = ConsumerState()
