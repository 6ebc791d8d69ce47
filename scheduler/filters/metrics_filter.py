"""Hosts that report the metrics that weighing needs (spec: filters-and-weighers 2.18)."""

from oslo_config import cfg

from scheduler.conf.option_pairs import parse_options
from scheduler.filters.base import HostFilter, Judge, JudgeOf
from scheduler.hosts.host_state import HostState
from scheduler.request.scheduling_request import SchedulingRequest


class MetricsFilter(HostFilter):
    """Every metric named in ``[metrics] weight_setting`` is reported, whatever its ratio (0 included).

    The option is read when the filter is made.
    """

    nova_modules = ("metrics_filter",)

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        settings = parse_options(conf.metrics.weight_setting, "=", float, "[metrics] weight_setting")
        self.required = frozenset(name for name, _ in settings)

    def prepare(self, request: SchedulingRequest) -> Judge | None:
        if not self.required:
            return None
        return JudgeOf(
            lambda hosts: hosts.coded("metrics").spread(
                lambda metrics: self.required <= {metric.name for metric in metrics.value}
            ),
            self._reason,
        )

    def _reason(self, host: HostState) -> str:
        missing = self.required.difference(metric.name for metric in host.metrics)
        return f"metrics not reported: {', '.join(sorted(missing))}"
