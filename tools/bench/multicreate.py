"""Measure a request for 100 instances; every claim succeeds at once."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any
import uuid

from scheduler.filters.chain import FilterChain
from scheduler.numa.fit import Fitter
from scheduler.placement.outcomes import Outcome
from scheduler.placement.writes import Written
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rules import load_filters as filter_loader
from scheduler.rules import load_weighers as weight_loader
from scheduler.selection.driver import FilterDriver
from tools.bench import hosts as synthetic
from tools.bench import requests
from tools.bench.report import Measurement, best

INSTANCES = 100
GRANTED = Written(Outcome.DONE)
# Filters that leave only a few hosts, with which there is not enough to measure.
NARROW = {"SameHostFilter", "IsolatedHostsFilter"}


class Granting:
    """A claimer whose claims always succeed, at once."""

    def claim(self, candidates: Mapping[str, Any]) -> dict[str, Written]:
        return dict.fromkeys(candidates, GRANTED)

    def release(self, instance_uuid: str, claim: Written) -> None: ...


def run(count: int, runs: int) -> Iterator[Measurement]:
    """Measure the work from the candidate hosts to the selections with their alternates."""
    table = synthetic.table(count)
    uuids = [str(uuid.UUID(int=(3 << 64) + number)) for number in range(INSTANCES)]
    for rules, conf, make in (
        ("default rules", requests.make_conf(), requests.plain),
        ("all rules", _all_rules(), requests.demanding),
    ):
        for name, group in (("", None), (", anti-affinity group", requests.group("anti-affinity", uuids))):
            work, prepare = _work(table, conf, make, group, uuids)
            milliseconds = best(work, prepare, runs)
            yield Measurement("multicreate", f"{INSTANCES} instances", rules + name, count, milliseconds)


def _all_rules() -> Any:
    conf = requests.demanding_conf()
    rules = [cls.__name__ for cls in filter_loader.builtin.SHIPPED if cls.__name__ not in NARROW]
    conf.set_override("enabled_filters", rules, "filter_scheduler")
    return conf


def _work(
    table: Any, conf: Any, make: Callable, group: Any, uuids: list[str]
) -> tuple[Callable[[Any], Any], Callable[[], Any]]:
    chain = FilterChain(filter_loader.load(conf))
    driver = FilterDriver(conf, chain, weight_loader.load(conf), Fitter())

    def prepare() -> tuple:
        # a selection adds its host to the group of the request
        return synthetic.view(table), make(instance_group=group and group.obj_clone())

    def work(made: tuple) -> None:
        hosts, spec = made
        request = SchedulingRequest.of(spec, uuids, with_alternates=True)
        driver.select(hosts, request, Granting())

    return work, prepare
