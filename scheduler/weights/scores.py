"""Weighing: raw weights to one total a host (spec: filters-and-weighers 1.9).

Raw weights are kept between the instances of a request: after a choice only what it changed is weighed again.
"""

from collections.abc import Sequence

import numpy as np

from scheduler.hosts.request_instances import Needs
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.base import HostWeigher, Scorer

SomeWeights = tuple[HostWeigher, np.ndarray, float, float, float | np.ndarray]
"""(weigher, raw weights of some hosts, the raw weights that become 0 and 1, the factor of all or of each)."""


class PreparedWeighers:
    """The weighers that have an effect on one request, prepared for it.

    Attributes:
        weighers: Each of them with its scorer, in configured order.
        needs: What must be loaded into the view before hosts are weighed.
    """

    def __init__(self, weighers: Sequence[HostWeigher], request: SchedulingRequest) -> None:
        """Prepare those of the weighers. Does no I/O."""
        prepared = ((weigher, weigher.prepare(request)) for weigher in weighers)
        self.weighers = tuple((weigher, scorer) for weigher, scorer in prepared if scorer is not None)
        self.needs = Needs()
        for weigher, scorer in self.weighers:
            self.needs |= Needs.declared(weigher.needs, scorer.instance_uuids)

    def scores(self, hosts: HostView) -> "Scores":
        """Weigh all hosts. With none or one no scorer is called, as nothing could depend on it."""
        return Scores(self.weighers, hosts)


class Scores:
    """The raw weights of some hosts by every weigher that has an effect on the request."""

    def __init__(self, weighers: Sequence[tuple[HostWeigher, Scorer]], hosts: HostView) -> None:
        self._alone = len(hosts) <= 1
        self._weighers = () if self._alone else tuple(weighers)
        self._multipliers = [weigher.multiplier(hosts) for weigher, _ in self._weighers]
        self._raw = [clamped(scorer.weigh(hosts), weigher) for weigher, scorer in self._weighers]
        self._length = len(hosts)
        self._scales: list[tuple[float, float]] = []

    def keep(self, kept: np.ndarray) -> None:
        """Forget all hosts but those at the indices ``kept``."""
        if len(kept) == self._length:
            return
        self._raw = [raw[kept] for raw in self._raw]
        self._multipliers = [
            each[kept] if isinstance(each, np.ndarray) else each for each in self._multipliers
        ]
        self._length = len(kept)

    def refresh(self, hosts: HostView, changed: np.ndarray) -> None:
        """Weigh the hosts at these indices (int64) again, and all where a choice elsewhere matters."""
        for number, (weigher, scorer) in enumerate(self._weighers):
            if not weigher.local:
                self._raw[number] = clamped(scorer.weigh(hosts), weigher)
            elif len(changed):
                self._raw[number][changed] = clamped(scorer.weigh(hosts.at(changed)), weigher)

    def parts(self) -> list[tuple[str, np.ndarray]]:
        """Return what each weigher adds to the totals, float64 of shape (hosts,), by weigher name."""
        added = []
        self._scales = []
        for (weigher, _), multiplier, raw in zip(self._weighers, self._multipliers, self._raw, strict=True):
            low, high = scale_of(raw, weigher.minval, weigher.maxval)
            self._scales.append((low, high))
            if low != high:
                with np.errstate(invalid="ignore"):
                    added.append((weigher.name, multiplier * ((raw - low) / (high - low))))
        return added

    def weights(self, indices: np.ndarray) -> list[SomeWeights]:
        """Return what the weighers say of the hosts at these indices that do not say the same of all.

        Call it after ``totals``, with nothing in between.
        """
        if self._alone or self._length <= 1:
            return []
        return [
            (weigher, raw[indices], low, high, each[indices] if isinstance(each, np.ndarray) else each)
            for (weigher, _), raw, (low, high), each in zip(
                self._weighers, self._raw, self._scales, self._multipliers, strict=True
            )
            if low != high
        ]

    def totals(self) -> np.ndarray:
        """Return the total of each host; float64, shape (hosts,). A host that is alone is not weighed: 0.

        What is no number, as nothing times infinity in aggregate metadata, is worse than any.
        """
        totals = np.zeros(self._length)
        if self._alone or self._length <= 1:
            return totals
        for _, part in self.parts():
            totals += part
        totals[np.isnan(totals)] = -np.inf
        return totals


def scale_of(raw: np.ndarray, minval: float | None, maxval: float | None) -> tuple[float, float]:
    """Return the raw weights that become 0 and 1: the bounds, or the smallest and largest that occur."""
    return (
        float(raw.min() if minval is None else minval),
        float(raw.max() if maxval is None else maxval),
    )


def clamped(raw: np.ndarray, weigher: HostWeigher) -> np.ndarray:
    """Return raw weights lifted to the weigher's ``minval`` and lowered to its ``maxval``, if it clamps."""
    if not weigher.clamps or (weigher.minval is None and weigher.maxval is None):
        return raw
    return np.clip(raw, weigher.minval, weigher.maxval)
