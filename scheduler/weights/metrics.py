"""Weighs hosts by metrics that their monitors report (spec: filters-and-weighers 3.4)."""

from functools import partial

import numpy as np
from oslo_config import cfg

from scheduler.conf.option_pairs import parse_options
from scheduler.errors import ComputeHostMetricNotFound
from scheduler.hosts.rows import Metric, Parsed
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights.base import HostWeigher, Scorer


class MetricsWeigher(HostWeigher):
    """Raw weight: the sum of metric x ratio over ``[metrics] weight_setting``.

    ``[metrics] weight_multiplier`` (1.0), aggregate key ``metrics_weight_multiplier``. A host that lacks a
    metric: with ``[metrics] required`` (true) the request fails; else the host gets
    ``weight_of_unavailable``, unless the ratio or its multiplier is 0.
    """

    option = "metrics_weight_multiplier"

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        settings = parse_options(conf.metrics.weight_setting, "=", float, "[metrics] weight_setting")
        self.settings = tuple(settings)

    def prepare(self, request: SchedulingRequest) -> Scorer | None:
        return Scorer(self._weighted_sum) if self.settings else None

    def configured_multiplier(self) -> float:
        return self.conf.metrics.weight_multiplier

    def _weighted_sum(self, hosts: HostView) -> np.ndarray:
        column = hosts.coded("metrics")
        multiplier = np.broadcast_to(self.multiplier(hosts), len(hosts))
        total = np.zeros(len(hosts))
        unavailable = np.zeros(len(hosts), dtype=bool)
        for name, ratio in self.settings:
            values = column.spread(partial(value_of, name=name), np.float64)
            missing = np.isnan(values)
            self._require(hosts, name, missing & ~unavailable)
            total += np.where(missing, 0.0, values * ratio)
            unavailable |= missing & (ratio * multiplier != 0)
        return np.where(unavailable, self.conf.metrics.weight_of_unavailable, total)

    def _require(self, hosts: HostView, name: str, missing: np.ndarray) -> None:
        if self.conf.metrics.required and missing.any():
            row = hosts.rows[int(np.argmax(missing))]
            raise ComputeHostMetricNotFound(name, row.host, row.nodename)


def value_of(metrics: Parsed[tuple[Metric, ...]], name: str) -> float:
    """Return the value of a metric, NaN if the host does not report one."""
    values = [item.value for item in metrics.value if item.name == name and item.value is not None]
    return values[-1] if values else np.nan
