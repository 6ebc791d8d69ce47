"""Run by Berth's Python: what Berth makes of published rules, with or without an installed nova.

published_berth.py NOVA_CONF DIRECTORY...: the directories are put at the end of the path. As JSON on the last line:
{"filters": {name: {host: passes}}, "weights": {name: {host: weight}}}, or {"refused": text}.
"""

import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
HERE = str(pathlib.Path(__file__).parent)

config, *directories = sys.argv[1:]
# The directory of this program has modules that are no part of any installation
sys.path = [str(ROOT), *(path for path in sys.path if path != HERE), *directories]

from oslo_service import backend  # noqa: E402 - the path is complete now

backend.init_backend(backend.BackendType.THREADING)

from scheduler import conf as options  # noqa: E402
from scheduler import objects  # noqa: E402
from scheduler.errors import BerthError  # noqa: E402
from scheduler.hosts.rows import Metric  # noqa: E402
from scheduler.pci.pools import from_flat  # noqa: E402
from scheduler.rules import drivers, nova_modules  # noqa: E402
from scheduler.rules.load_filters import ForeignFilter  # noqa: E402
from scheduler.rules.load_weighers import ForeignWeigher  # noqa: E402
from scheduler.weights.scores import PreparedWeighers  # noqa: E402
from tests.builders import make_host, make_view  # noqa: E402
from tests.unit.filters.asking import make_request, verdicts  # noqa: E402


def host(name, memory, idle, **tags):
    metric = Metric("cpu.idle.percent", idle, "2026-01-02T03:04:05", "test")
    pools = from_flat([{"vendor_id": "8086", "product_id": "1", "numa_node": 0, "count": 1, **tags}])
    return make_host(name).ram(memory).metrics({metric.name: metric}).pci(pools)


def cloud():
    """The hosts of ``published_cloud``, as Berth has read them."""
    return [
        host("h1", 1000, 90).aggregate("first", failure_domain="a"),
        host("host2", 3000, 10, remote_managed="true").aggregate("first", failure_domain="a"),
        host("h3", 2000, 50).aggregate("second", failure_domain="b"),
    ]


def request():
    wanted = objects.InstancePCIRequest(count=1, spec=[{"vendor_id": "8086"}], alias_name="nic")
    return make_request(
        hints={},
        group={"policies": ["anti-affinity"], "policy": "anti-affinity", "members": [], "hosts": ["h1"]},
        pci_requests=objects.InstancePCIRequests(requests=[wanted]),
    )


def main():
    conf = options.load(["--config-file", config])
    try:
        nova_modules.provide(conf)
        rules = drivers.load_rules(conf)
    except BerthError as error:
        return {"refused": str(error)}
    view = make_view(cloud())
    names = [row.host for row in view.rows]
    found = {"filters": {}, "weights": {}}
    for rule in rules.chain.filters:
        if isinstance(rule, ForeignFilter):
            found["filters"][rule.name] = dict(zip(names, verdicts(rule, view, request()), strict=True))
    for weigher in rules.weighers:
        if isinstance(weigher, ForeignWeigher):
            scores = PreparedWeighers([weigher], request()).scores(view).totals().tolist()
            found["weights"][weigher.name] = dict(zip(names, scores, strict=True))
    return found


sys.stdout.write(json.dumps(main()) + "\n")
