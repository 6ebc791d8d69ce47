"""What is written to the decision stream.

A message of the stream is a JSON list of records. Each record says which scheduler sent it, when, and its
kind. Messages come from a bus that other services use too, and from other releases of Berth: so each record
is decoded by type and within bounds, one that cannot be read costs only itself, and kinds or versions that
are not known here are left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from scheduler.numa.usage import InstanceDemand

VERSION = 1
"""The version of records. Fields may be added within a version; a reader of an older release ignores them."""

LARGEST_MESSAGE = 64 << 10
"""Bytes of the largest message that is written or read."""

MOST_RECORDS = 1000
"""Records of one message."""

MOST_ENTRIES = 1000
"""Instances of one record."""

LARGEST_AMOUNT = 1 << 40
"""The largest amount of anything that one instance takes, positive or negative."""

Kind = StrEnum(
    "Kind",
    {
        "INTENT": "intent",
        "CLAIMED": "claimed",
        "RELEASED": "released",
        "GONE": "gone",
        "HELLO": "hello",
        "BEAT": "beat",
        "BYE": "bye",
    },
)
"""The kind of a record.

INTENT: an instance is to be claimed on a node. CLAIMED: Placement granted it. RELEASED: it must not be on
the node after all; with resources: a granted claim is released. GONE: a compute reports that the instance
is deleted. HELLO, BEAT, BYE: a scheduler starts to read, lives, stops.
"""

_KINDS = frozenset(kind.value for kind in Kind)

LARGEST_DEMAND = 4096
"""Bytes of the largest demand that is written or read; a guest with 256 CPUs has about 2,000."""

LONGEST_IDENTIFIER = 64
"""Characters of what identifies an instance, a node or a scheduler."""

Identifier = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_IDENTIFIER)]
Name = Annotated[str, msgspec.Meta(max_length=255)]
Amount = Annotated[int, msgspec.Meta(ge=-LARGEST_AMOUNT, le=LARGEST_AMOUNT)]
AmountsByName = Annotated[dict[Name, Amount], msgspec.Meta(max_length=64)]


NO_DEMAND = msgspec.Raw()


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The entry of a record for one instance.

    Attributes:
        instance: The uuid of the instance.
        node: The uuid of the compute node; "" if it does not matter.
        columns: What the instance adds to the node, by column of the host table.
        resources: What it takes of the node's own inventories, by resource class.
        updated: The stamp of the node's row that the decision was based on.
        demand: What it needs of the node's NUMA cells and PCI devices, as ``demand_of`` reads it.
            Earlier releases write ``needs``, which is not read: such an entry counts without them.
    """

    instance: Identifier
    node: Annotated[str, msgspec.Meta(max_length=LONGEST_IDENTIFIER)] = ""
    columns: AmountsByName = {}
    resources: AmountsByName = {}
    updated: datetime | None = None
    demand: msgspec.Raw = NO_DEMAND


class Record(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One record.

    Attributes:
        sender: Identifies the process that wrote it.
        counter: How many records the sender wrote before. Gaps are lost records.
        time: When it was written, by the sender's clock; seconds since the epoch.
        entries: The instances that the record is about.
        host: The service host of the sender, in HELLO and BEAT.
    """

    version: int
    kind: str
    sender: Identifier
    counter: Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
    time: Annotated[float, msgspec.Meta(ge=0, le=1e11)]
    entries: Annotated[tuple[Entry, ...], msgspec.Meta(max_length=MOST_ENTRIES)] = ()
    host: Name = ""


class _Header(msgspec.Struct):
    version: int
    kind: str


@dataclass(slots=True)
class Message:
    """What was decoded of one message.

    Attributes:
        records: The records that can be used.
        faults: Why others cannot be read. Those of kinds and versions that are not known here are left out.
    """

    records: list[Record] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


_records = msgspec.json.Decoder(Annotated[list[msgspec.Raw], msgspec.Meta(max_length=MOST_RECORDS)])
_header = msgspec.json.Decoder(_Header)
_record = msgspec.json.Decoder(Record)
_demand = msgspec.json.Decoder(InstanceDemand)
_encoder = msgspec.json.Encoder()


def decode(body: bytes | str) -> Message:
    """Decode a message. Never raises: what cannot be read is in ``faults``."""
    message = Message()
    if len(body) > LARGEST_MESSAGE:
        message.faults.append(f"the message has {len(body)} bytes")
        return message
    try:
        parts = _records.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        message.faults.append(str(error))
        return message
    for part in parts:
        _decode_record(part, message)
    return message


def _decode_record(part: msgspec.Raw, message: Message) -> None:
    try:
        record = _record.decode(part)
    except (msgspec.DecodeError, RecursionError) as error:
        if not _is_foreign(part):
            message.faults.append(str(error))
        return
    if record.version == VERSION and record.kind in _KINDS:
        message.records.append(record)


def _is_foreign(part: msgspec.Raw) -> bool:
    """Return whether a record is of a version or kind that is not known here, and may have another form."""
    try:
        header = _header.decode(part)
    except (msgspec.DecodeError, RecursionError):
        return False
    return header.version != VERSION or header.kind not in _KINDS


def encode(records: Iterable[Record]) -> Iterator[tuple[bytes, int]]:
    """Encode records into as few messages as their bounds allow.

    A record that is larger than a message is left out, as is one with text that is no Unicode: what a
    cast names may have half of a surrogate pair.

    Yields:
        The body of a message, and how many of the records it accounts for.
    """
    parts: list[bytes] = []
    size = accounted = 0
    for record in records:
        part = _encoded(record)
        if parts and (size + len(part) + 2 > LARGEST_MESSAGE or len(parts) == MOST_RECORDS):
            yield _join(parts), accounted
            parts, size, accounted = [], 0, 0
        accounted += 1
        if part and len(part) + 2 <= LARGEST_MESSAGE:
            parts.append(part)
            size += len(part) + 1
    if accounted:
        yield _join(parts), accounted


def _encoded(record: Record) -> bytes:
    """Return a record as JSON; nothing if it cannot be encoded."""
    try:
        return _encoder.encode(record)
    except UnicodeEncodeError:
        return b""


def _join(parts: list[bytes]) -> bytes:
    return b"[" + b",".join(parts) + b"]"


def without_zeros(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return the amounts that are not 0, as plain ints within the bounds of a record."""
    return {
        name: max(-LARGEST_AMOUNT, min(LARGEST_AMOUNT, int(amount)))
        for name, amount in amounts.items()
        if amount
    }


def encode_demand(demand: InstanceDemand | None) -> msgspec.Raw:
    """Return a demand for an entry; nothing for None, and for one that has no room or cannot be encoded."""
    try:
        encoded = b"" if demand is None else _encoder.encode(demand)
    except UnicodeEncodeError:
        return NO_DEMAND
    return msgspec.Raw(encoded) if 0 < len(encoded) <= LARGEST_DEMAND else NO_DEMAND


def demand_of(entry: Entry) -> InstanceDemand | None:
    """Return the demand of an entry; None for none, and for one that is too large or cannot be read.

    Any service on the bus can write one, so it may be anything of that type: a wrong one costs a bad choice
    of host (``hosts.demands``).
    """
    encoded = bytes(entry.demand)
    try:
        return _demand.decode(encoded) if 0 < len(encoded) <= LARGEST_DEMAND else None
    except (msgspec.DecodeError, RecursionError):
        return None
