"""Hosts that report the metrics that weighing needs (spec: filters-and-weighers 2.18)."""

from typing import Any

import numpy as np
from oslo_config import cfg

from scheduler.filters.base import HostFilter
from scheduler.hosts.host_state import HostState
from scheduler.hosts.view import HostView
from scheduler.settings import parse_options


class MetricsFilter(HostFilter):
    """Every metric named in ``[metrics] weight_setting`` is reported, whatever its ratio (0 included).

    The option is read when the filter is made.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        settings = parse_options(conf.metrics.weight_setting, "=", float, "[metrics] weight_setting")
        self.required = frozenset(name for name, _ in settings)

    def applies(self, request: Any) -> bool:
        return bool(self.required)

    def passes(self, hosts: HostView, request: Any) -> np.ndarray:
        return hosts.coded("metrics").spread(lambda metrics: self.required <= metrics.names)

    def reason(self, host: HostState, request: Any) -> str:
        missing = self.required.difference(metric.name for metric in host.metrics)
        return f"metrics not reported: {', '.join(sorted(missing))}"
