"""Records of the decision stream, as another scheduler writes them."""

import time

from scheduler.stream.records import Entry, Kind, Record
from tests.builders import uuid_of


def record(kind=Kind.INTENT, sender="other", counter=0, at=None, **fields):
    """A record of one instance on host h1, unless ``fields`` say otherwise, or of a scheduler that is alive."""
    entry = Entry(**{"instance": "i1", "node": uuid_of("h1"), "columns": {"vcpus_used": 1}} | fields)
    is_sign = kind in {Kind.HELLO, Kind.BEAT}
    return Record(
        version=1,
        kind=kind,
        sender=sender,
        counter=counter,
        time=time.time() if at is None else at,
        entries=() if is_sign else (entry,),
        host=sender if is_sign else "",
    )
