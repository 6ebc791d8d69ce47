"""Measure each built-in rule on all hosts at once."""

from collections.abc import Callable, Iterator
from typing import Any

from scheduler import objects
from scheduler.filters import builtin as filters
from scheduler.filters.base import HostFilter
from scheduler.hosts.request_instances import Needs
from scheduler.hosts.view import HostView
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.weights import builtin as weights
from scheduler.weights.base import HostWeigher
from scheduler.weights.scores import PreparedWeighers
from tools.bench import hosts as synthetic
from tools.bench import requests
from tools.bench.report import Measurement, best

PLAIN_BOOT = "a plain boot request"
DEMANDING = "a request with work for every rule"

POLICIES = {
    "ServerGroupAffinityFilter": "affinity",
    "GroupAffinityFilter": "affinity",
    "ServerGroupSoftAffinityWeigher": "soft-affinity",
    "ServerGroupSoftAntiAffinityWeigher": "soft-anti-affinity",
}


def run(count: int, runs: int) -> Iterator[Measurement]:
    """Measure each rule alone on ``count`` hosts, without results cached by other rules; add the sums."""
    table = synthetic.table(count)
    for case, conf, make in (
        (PLAIN_BOOT, requests.make_conf(), lambda _: requests.plain()),
        (DEMANDING, requests.demanding_conf(), requests.demanding),
    ):
        for kind, rules in _kinds(conf).items():
            times = {
                rule.name: best(_asking(rule, make(_policy(rule))), lambda: synthetic.view(table), runs)
                for rule in rules
            }
            yield from _measurements(f"{kind}, {case}", count, times)


def _kinds(conf: Any) -> dict[str, list[HostFilter] | list[HostWeigher]]:
    return {
        "filters": [cls(conf) for cls in filters.SHIPPED],
        "filters of nova's past": [cls(conf) for cls in filters.PAST],
        "filters that nova does not have": [cls(conf) for cls in filters.ADDED],
        "weighers": [cls(conf) for cls in weights.ALL],
        "weighers that nova does not have": [cls(conf) for cls in weights.ADDED],
    }


def _policy(rule: HostFilter | HostWeigher) -> str:
    return POLICIES.get(rule.name, "anti-affinity")


def _measurements(case: str, count: int, times: dict[str, float]) -> Iterator[Measurement]:
    for name, milliseconds in (times | {"in all": sum(times.values())}).items():
        yield Measurement("rules", case, name, count, milliseconds)


def _asking(rule: HostFilter | HostWeigher, spec: objects.RequestSpec) -> Callable[[HostView], Any]:
    """Return a function that does with a rule what ``FilterChain`` or ``Scores`` does."""
    request = SchedulingRequest.of(spec, [spec.instance_uuid])

    def judge(hosts: HostView) -> Any:
        judge = rule.prepare(request)
        if judge is None:
            return None
        hosts.load(Needs.declared(rule.needs, judge.instance_uuids))
        return judge.passes(hosts)

    def weigh(hosts: HostView) -> Any:
        prepared = PreparedWeighers([rule], request)
        hosts.load(prepared.needs)
        return prepared.scores(hosts).totals()

    return judge if isinstance(rule, HostFilter) else weigh
