"""The shadow: takes copies, decides, looks what nova-scheduler chose, and writes down how they compare."""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
import logging
from logging.handlers import RotatingFileHandler
import os
from pathlib import Path
import queue
import threading
import time
from typing import Any, NamedTuple

import msgspec

from scheduler.errors import BerthError
from scheduler.operators.shadow.copies import Copy
from scheduler.operators.shadow.decisions import (
    UNCHANGED,
    Changes,
    ShadowDecision,
    ShadowManager,
    ShadowVerdict,
    compare,
)
from scheduler.placement.errors import PlacementSilent

LOG = logging.getLogger(f"nova.{__name__}")

#: Name of the files with the comparisons, and how large and how many they may be.
FILE = "berth-shadow.jsonl"
LARGEST_FILE = 64 << 20
MOST_FILES = 4

#: Seconds until it is first looked what nova-scheduler chose; the interval doubles up to the last look.
FIRST_LOOK = 0.5
LONGEST_WAIT = 120.0

#: Decisions whose comparison waits. Beyond that the oldest is given up.
MOST_WAITING = 2000


class Compared(msgspec.Struct, frozen=True):
    """One comparison, as it is written.

    Attributes:
        time: When it was written, in seconds since the epoch.
        request_id: The id of the request, for ``berth-explain decision``.
        verdict: How the decisions compare.
        instances: The number of instances.
        berth: The hosts that Berth would have chosen.
        nova: The hosts that nova-scheduler chose.
        seconds: How long Berth decided.
        nova_seconds: After how many seconds the choice of nova-scheduler was seen; its decision took less.
        refusal: Why Berth found no host.
    """

    time: float
    request_id: str
    verdict: ShadowVerdict
    instances: int
    berth: tuple[str, ...] = ()
    nova: tuple[str, ...] = ()
    seconds: float = 0.0
    nova_seconds: float = 0.0
    refusal: str = ""


@dataclass
class _Waiting:
    copy: Copy
    decision: ShadowDecision
    look_at: float
    interval: float = FIRST_LOOK


class _Chosen(NamedTuple):
    """What nova-scheduler chose for a request, when the copy was received and when the choice was seen.

    ``changes`` are those of hosts between both, if they may matter.
    """

    nodes: Mapping[str, str]
    received_at: float
    seen_at: float
    changes: Changes

    def overlaps(self, other: "_Chosen") -> bool:
        """Return whether either request may have been decided before the other one."""
        return self.received_at <= other.seen_at and other.received_at <= self.seen_at


class ComparisonFile(RotatingFileHandler):
    """Where comparisons are written: JSON lines, in a bounded number of files.

    Other users cannot read them: they name the hosts of instances.
    """

    def __init__(self, directory: Path, clock: Callable[[], float] = time.time) -> None:
        """Open the file.

        Raises:
            OSError: It cannot be written.
        """
        self.clock = clock
        super().__init__(directory / FILE, "a", LARGEST_FILE, MOST_FILES, "utf-8")

    def _open(self) -> Any:
        file = super()._open()
        os.fchmod(file.fileno(), 0o600)
        return file

    def write(self, compared: Compared) -> None:
        """Write one comparison."""
        line = msgspec.json.encode(compared).decode()
        self.emit(logging.LogRecord(__name__, logging.INFO, "", 0, line, None, None))


class Shadow:
    """Decides copies in one thread and compares in another."""

    def __init__(
        self, deciding: ShadowManager, file: ComparisonFile, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._deciding = deciding
        self._file = file
        self._clock = clock
        self._decided: queue.SimpleQueue[_Waiting] = queue.SimpleQueue()
        self._waiting: list[_Waiting] = []
        self._seen: list[tuple[ShadowDecision, _Chosen]] = []
        self._latest: deque[_Chosen] = deque(maxlen=MOST_WAITING)
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Let ``run`` return."""
        self._stopped.set()

    def take(self, copy: Copy) -> None:
        """Decide a copy; its comparison follows."""
        try:
            decision = self._deciding.decide(copy)
        except Exception as error:
            # One copy that meets a defect must not end the others
            LOG.warning(
                "Cannot decide a copy of a request: %s", error, exc_info=not isinstance(error, BerthError)
            )
            self._write(ShadowVerdict.UNKNOWN, copy.context.request_id, len(copy.instance_uuids))
            return
        self._decided.put(_Waiting(copy, decision, copy.received_at + FIRST_LOOK))

    def run(self) -> None:
        """Compare until ``stop``."""
        while not self._stopped.wait(self.look()):
            pass

    def look(self) -> float:
        """Look for the choices that are due. Return the seconds until the next one."""
        while not self._decided.empty():
            self._waiting.append(self._decided.get())
        while len(self._waiting) > MOST_WAITING:
            self._write_unknown(self._waiting.pop(0))
        self._waiting = [each for each in self._waiting if not self._is_over(each)]
        self._seen = [each for each in self._seen if not self._is_compared(*each)]
        now = self._clock()
        return max(0.05, min([each.look_at - now for each in self._waiting] + [FIRST_LOOK]))

    def _is_over(self, each: _Waiting) -> bool:
        now = self._clock()
        if now < each.look_at:
            return False
        try:
            nodes = self._deciding.held_nodes(each.copy)
            # In this order: an instance that was placed in between is no refusal
            refused = not nodes and self._deciding.nobody_waits(each.copy.instance_uuids)
        except PlacementSilent:
            nodes, refused = {}, False
        if len(nodes) == len(each.copy.instance_uuids) or refused:
            self._deciding.follow(each.decision, nodes)
            unexplained = compare(each.decision, nodes) is ShadowVerdict.OTHER
            changes = self._deciding.changes_since(each.decision, nodes) if unexplained else UNCHANGED
            chosen = _Chosen(nodes, each.copy.received_at, now, changes)
            self._latest.append(chosen)
            self._seen.append((each.decision, chosen))
            return True
        if now - each.copy.received_at > LONGEST_WAIT:
            self._write_unknown(each)
            return True
        each.interval *= 2
        each.look_at = now + each.interval
        return False

    def _is_compared(self, decision: ShadowDecision, chosen: _Chosen) -> bool:
        """Compare and write, unless a choice that may be the reason for this one has not been seen yet."""
        others = [each for each in self._latest if each is not chosen and each.overlaps(chosen)]
        nodes = {node for other in others for node in other.nodes.values()}
        verdict = compare(decision, chosen.nodes, nodes, chosen.changes)
        unseen = any(each.copy.received_at <= chosen.seen_at for each in self._waiting)
        if verdict is ShadowVerdict.OTHER and unseen and len(self._seen) <= MOST_WAITING:
            return False
        names = self._deciding.name_of
        self._write(
            verdict,
            decision.request_id,
            len(decision.instance_uuids),
            berth=tuple(names(choice.node) for choice in decision.choices),
            nova=tuple(names(node) for node in chosen.nodes.values()),
            seconds=round(decision.seconds, 6),
            nova_seconds=round(chosen.seen_at - chosen.received_at, 3),
            refusal=decision.refusal,
        )
        return True

    def _write_unknown(self, each: _Waiting) -> None:
        self._deciding.follow(each.decision, {})
        self._write(ShadowVerdict.UNKNOWN, each.decision.request_id, len(each.decision.instance_uuids))

    def _write(self, verdict: ShadowVerdict, request_id: str | None, instances: int, **more: object) -> None:
        LOG.info("Request %s: %s", request_id, verdict)
        self._file.write(
            Compared(self._file.clock(), request_id or "", verdict, instances, **more)  # type: ignore[arg-type]
        )
