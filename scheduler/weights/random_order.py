"""Any host is as good as any other, for ``[scheduler] driver = chance_scheduler``."""

import random

import numpy as np
from oslo_config import cfg

from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.base import HostWeigher, Scorer


class RandomScorer(Scorer):
    """Raw weights at random, different at each call."""

    def __init__(self, source: random.Random) -> None:
        self._source = source

    def weigh(self, hosts: HostView) -> np.ndarray:
        """Return raw weights in [0, 1): float64, shape (hosts,)."""
        return np.array([self._source.random() for _ in range(len(hosts))], dtype=np.float64)


class RandomWeigher(HostWeigher):
    """Puts hosts into a random order. It is no weigher of nova and cannot be configured."""

    def __init__(self, conf: cfg.ConfigOpts, source: random.Random | None = None) -> None:
        super().__init__(conf)
        self._source = source or random.Random()

    def multiplier(self, hosts: HostView) -> float:
        """Return 1 for all hosts, whatever their aggregates say."""
        return 1.0

    def prepare(self, request: SchedulingRequest) -> RandomScorer:
        return RandomScorer(self._source)
