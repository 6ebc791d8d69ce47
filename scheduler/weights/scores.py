"""Weighing: raw weights to one total a host (spec: filters-and-weighers 1.9).

Raw weights are kept between the instances of a request: after a choice only what it changed is weighed again.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from oslo_log import log as logging

from scheduler.hosts.view import HostView
from scheduler.weights.base import HostWeigher

LOG = logging.getLogger("nova.weights")


def normalize(raw: np.ndarray, minval: float | None = None, maxval: float | None = None) -> np.ndarray | None:
    """Raw weights on the scale from ``minval`` to ``maxval`` (default: those that occur); None for all zeros.

    Not clamped: with a bound given, results can leave [0, 1].
    """
    if not len(raw):
        return None
    low = float(raw.min() if minval is None else minval)
    high = float(raw.max() if maxval is None else maxval)
    return None if low == high else (raw - low) / (high - low)


def clamped(raw: np.ndarray, weigher: HostWeigher) -> np.ndarray:
    """Raw weights lifted to the weigher's ``minval`` and lowered to its ``maxval``, if it wants that."""
    if not weigher.clamps or (weigher.minval is None and weigher.maxval is None):
        return raw
    return np.clip(raw, weigher.minval, weigher.maxval)


class Scores:
    """The raw weights of some hosts by every weigher that has a say on the request."""

    def __init__(self, weighers: Sequence[HostWeigher], hosts: HostView, request: Any) -> None:
        """Weigh all hosts. With none or one nobody is asked, as nothing could depend on it."""
        self._request = request
        self._alone = len(hosts) <= 1
        asked = () if self._alone else (weigher for weigher in weighers if weigher.applies(request))
        self._weighers = [(weigher, weigher.multiplier(hosts)) for weigher in asked]
        self._raw = [clamped(weigher.weigh(hosts, request), weigher) for weigher, _ in self._weighers]
        self._length = len(hosts)

    def keep(self, kept: np.ndarray) -> None:
        """Forget all hosts but those at the indices ``kept``."""
        if len(kept) == self._length:
            return
        self._raw = [raw[kept] for raw in self._raw]
        self._weighers = [
            (weigher, multiplier[kept] if isinstance(multiplier, np.ndarray) else multiplier)
            for weigher, multiplier in self._weighers
        ]
        self._length = len(kept)

    def refresh(self, hosts: HostView, changed: int | None) -> None:
        """Weigh the host at index ``changed`` again, and all hosts where a choice elsewhere matters."""
        for number, (weigher, _) in enumerate(self._weighers):
            if not weigher.local:
                self._raw[number] = clamped(weigher.weigh(hosts, self._request), weigher)
            elif changed is not None:
                one = weigher.weigh(hosts.at([changed]), self._request)
                self._raw[number][changed] = clamped(one, weigher)[0]

    def parts(self) -> list[tuple[str, np.ndarray]]:
        """What each weigher adds to the totals, float64 of shape (hosts,), by weigher name."""
        added = []
        for (weigher, multiplier), raw in zip(self._weighers, self._raw, strict=True):
            normal = normalize(raw, weigher.minval, weigher.maxval)
            if normal is not None:
                with np.errstate(invalid="ignore"):
                    added.append((weigher.name, multiplier * normal))
        return added

    def totals(self) -> np.ndarray:
        """The total of each host; float64, shape (hosts,). A host that is alone is not weighed: 0.

        What is no number, as nothing times infinity in aggregate metadata, is worse than any.
        """
        totals = np.zeros(self._length)
        if self._alone or self._length <= 1:
            return totals
        for name, part in self.parts():
            LOG.debug("%s adds %s", name, part)
            totals += part
        totals[np.isnan(totals)] = -np.inf
        return totals
