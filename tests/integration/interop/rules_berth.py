"""What Berth's filters and weighers say of the cases of ``rules_cases``, in the form of ``rules_caller``."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import numpy as np

from scheduler import conf as options
from scheduler import objects
from scheduler.filters import builtin as filters
from scheduler.filters.chain import FilterChain
from scheduler.hosts.aggregates import Aggregates, HostAggregate
from scheduler.hosts.rows import ServiceRow
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.nova_db.row_loader import NODE_COLUMNS, RowLoader
from scheduler.numa.fit import Fitter
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.selection.consume import consume
from scheduler.selection.narrowing import narrow
from scheduler.selection.ranking import Ranking, descending
from scheduler.weights import builtin as weighers
from scheduler.weights.scores import PreparedWeighers
from tests.integration.interop.rules_cases import FILTERS

NOT_FOR_SEVERAL = {"MetricsWeigher", "ImagePropertiesWeigher"}


def outcome(call):
    """What a call gives, or the name of what it raises."""
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the outcome
        return getattr(error, "nova_name", type(error).__name__)


class Berth:
    """Filters and weighers as the options of one case after the other have them."""

    def __init__(self):
        self.conf = options.new()
        self.conf([], project="test", default_config_files=[], default_config_dirs=[])

    def judge(self, case, primitive):
        """The verdicts on a case, with the request as nova sends it."""
        for group, values in case["options"].items():
            for name, value in values.items():
                self.conf.set_override(name, value, group)
        try:
            return _Judge(self.conf, case, primitive).judge()
        finally:
            for group, values in case["options"].items():
                for name in values:
                    self.conf.clear_override(name, group)


class _Judge:
    def __init__(self, conf, case, primitive):
        self.conf = conf
        self.case = case
        self.hosts = self.view(case["nodes"])
        self.each = [self.view([node]) for node in case["nodes"]]
        self.request = objects.RequestSpec.obj_from_primitive(primitive)

    def view(self, nodes):
        loader = RowLoader(self.conf)
        rows = [loader.node(_row(node["row"]), node["cell"], {}) for node in nodes]
        services = {(node["cell"], node["host"]): _service(node) for node in nodes}
        aggregates = Aggregates(
            HostAggregate(**{**one, "hosts": frozenset(one["hosts"])}) for one in self.case["aggregates"]
        )
        table = HostTable(rows, services, aggregates)
        return HostView.of(table, np.arange(len(rows)), instances=_Instances(nodes))

    def places(self, kept):
        """Where in the case's nodes those kept are."""
        return [row.id - 1 for row in kept.rows]

    def judge(self):
        return {
            "narrowed": outcome(
                lambda: self.places(narrow(self.hosts, SchedulingRequest.of(self.request)).hosts)
            ),
            "filters": {cls.__name__: self.filter(cls) for cls in filters.SHIPPED if cls.__name__ in FILTERS},
            **self.weights(),
            "several": outcome(self.several),
        }

    def filter(self, cls):
        chain = FilterChain([cls(self.conf)])

        def kept(view):
            prepared = chain.prepare(SchedulingRequest.of(self.request))
            view.load(prepared.needs)
            return self.places(prepared.run(view).hosts)

        return {
            "all": outcome(lambda: kept(self.hosts)),
            "each": [outcome(lambda view=view: kept(view)) for view in self.each],
        }

    def weights(self):
        rules = [cls(self.conf) for cls in weighers.ALL]
        seen = {rule.name: outcome(lambda rule=rule: self.totals([rule]).tolist()) for rule in rules}
        whole = [rule for rule in rules if not isinstance(seen[rule.name], str)]
        totals = self.totals(whole)
        return {"weights": seen, "order": [[int(i), float(totals[i])] for i in descending(totals)]}

    def totals(self, rules):
        prepared = PreparedWeighers(rules, SchedulingRequest.of(self.request))
        self.hosts.load(prepared.needs)
        return prepared.scores(self.hosts).totals()

    def several(self):
        """The totals of the hosts left for one instance after the other; the best takes each."""
        rules = {cls.__name__: cls(self.conf) for cls in filters.SHIPPED}
        chain = FilterChain([rules[name] for name in self.case["enabled"]])
        weighing = [cls(self.conf) for cls in weighers.ALL if cls.__name__ not in NOT_FOR_SEVERAL]
        view, steps, ranking, chosen = self.view(self.case["nodes"]), [], None, None
        request = SchedulingRequest.of(self.request, self.case["request"]["instance_uuids"])
        for number, uuid in enumerate(request.instance_uuids):
            request.progress.instance_uuid = uuid
            if ranking:
                ranking.number = number
                ranking.refresh(chosen)
            else:
                prepared = chain.prepare(request), PreparedWeighers(weighing, request)
                ranking = Ranking(*prepared, view, request, self.conf.filter_scheduler)
            if not len(ranking):
                break
            totals = ranking.totals()
            steps.append(
                [[place, float(t)] for place, t in zip(self.places(ranking.hosts), totals, strict=True)]
            )
            chosen = int(np.argmax(totals))
            consume(ranking.hosts, chosen, request, Fitter(packing=False))
        return steps


def _row(facts):
    return SimpleNamespace(**{**dict.fromkeys(column.name for column in NODE_COLUMNS), **facts})


def _service(node):
    facts, now = node["service"], datetime.now(UTC).replace(tzinfo=None)

    def ago(seconds):
        return None if seconds is None else now - timedelta(seconds=seconds)

    return ServiceRow(
        id=1,
        uuid="5c000000-0000-4000-8000-000000000001",
        host=node["host"],
        report_count=1,
        disabled=facts["disabled"],
        disabled_reason=facts["disabled_reason"],
        forced_down=facts["forced_down"],
        last_seen_up=ago(facts["seen"]),
        created_at=ago(facts["created"]),
        version=facts["version"],
    )


class _Instances:
    """Where the case's instances are."""

    def __init__(self, nodes):
        self.places = {(node["cell"], node["host"]): node["instances"] for node in nodes}

    def locate(self, uuids):
        return {uuid: [place for place, held in self.places.items() if uuid in held] for uuid in uuids}

    def on_host(self, cell_uuid, host):
        held = self.places.get((cell_uuid, host), {})
        return {uuid: SimpleNamespace(uuid=uuid) for uuid in held}

    def image_properties(self, places):
        return {place: list(self.places.get(place, {}).values()) for place in places}
