"""Whether a request may have been run before."""

from enum import Enum

#: Seconds from the receipt of a call after which its caller may have left, as when the process was frozen.
#: Most calls take milliseconds: so a good day asks nova nothing, and leaves nothing in doubt.
SOON = 5.0


class Past(Enum):
    """Why a call may have been run before, or its caller may have left: it first looks at what it holds.

    It is known at the receipt of the message, when its channel is lost, or when it is begun again. A call
    without a past is new.
    """

    NONE = "new"
    REDELIVERED = "the broker delivered it before"
    QUEUED = "it was in the queue while nobody received from it"
    LOST = "its channel is lost, so the broker delivers it once more"
    BEGUN = "it was begun here before"

    def __bool__(self) -> bool:
        return self is not Past.NONE
