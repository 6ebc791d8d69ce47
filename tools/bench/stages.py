"""Measure each stage of a request inside the scheduler, from the message to the reply.

A server on loopback that answers at once with a prepared body takes the place of Placement: only the work of
the client is measured.
"""

from collections.abc import Callable, Iterator
import tempfile
import threading
from typing import Any

import numpy as np

from scheduler import conf as options
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.placement.answer import parse
from scheduler.placement.client import PlacementClient
from scheduler.request import query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rpc.serializer import LARGEST_ARGUMENT, ObjectSerializer
from scheduler.rules import load_filters as filter_loader
from scheduler.rules import load_weighers as weight_loader
from scheduler.selection.driver import FilterDriver
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.weights.scores import PreparedWeighers
from tools.bench import hosts as synthetic
from tools.bench import requests
from tools.bench.multicreate import Granting
from tools.bench.report import Measurement, best
from tools.rig import loopback

IN_ONE_GO = "decoded request to selections, in one go"
BY_MIRROR = "the same from the mirror"


def run(count: int, runs: int) -> Iterator[Measurement]:
    """Measure each stage of a plain boot request with the default rules, and several stages together."""
    bench = Stages(count)
    for name, work in bench.stages().items():
        yield Measurement("stages", "default rules", name, count, best(work, runs=runs))


class Stages:
    def __init__(self, count: int) -> None:
        self.conf = requests.make_conf()
        self.spec = requests.plain()
        self.primitive = self.spec.obj_to_primitive()
        self.serializer = ObjectSerializer(LARGEST_ARGUMENT)
        self.table = synthetic.table(count)
        self.body = synthetic.answer(self.table)
        self.found = parse(self.body, None)
        self.chain = FilterChain(filter_loader.load(self.conf))
        self.weighers = weight_loader.load(self.conf)
        self.driver = FilterDriver(self.conf, self.chain, self.weighers, Fitter())
        mirror = synthetic.ReadOnce(self.body)
        self.mirrored_hosts = MirroredHosts(mirror, synthetic.Instances(self.table), PendingPlacements())

    def stages(self) -> dict[str, Callable[[], Any]]:
        view = self.view()
        every_row = np.arange(len(view))
        reply = self.select()
        return {
            "decode": lambda: self.serializer.deserialize_entity(None, self.primitive),
            "query": lambda: query.build(self.spec, self.conf),
            "Placement (sending, receiving)": _Get(self.body),
            "parse": lambda: parse(self.body, None),
            "view": self.view,
            "filters": lambda: self.chain.prepare(self.request()).run(view.at(every_row)),
            "weighers": lambda: (
                PreparedWeighers(self.weighers, self.request()).scores(view.at(every_row)).totals()
            ),
            "reply": lambda: self.serializer.serialize_entity(None, reply),
            "view to selections, in one go": self.select,
            IN_ONE_GO: self.decoded_to_selections,
            BY_MIRROR: self.decoded_to_selections_by_mirror,
        }

    def view(self) -> HostView:
        return synthetic.offered(self.table, self.found)

    def select(self) -> list:
        """Return the selections for one instance: a host, claimed at once, and alternates."""
        return self.driver.select(self.view(), self.request(), Granting())

    def request(self) -> SchedulingRequest:
        return SchedulingRequest.of(self.spec, [requests.INSTANCE], with_alternates=True)

    def decoded_to_selections(self) -> list:
        query.build(self.spec, self.conf)
        self.found = parse(self.body, None)
        return self.select()

    def decoded_to_selections_by_mirror(self) -> list:
        """Return the same selections from a mirror that is up to date."""
        queries = query.build(self.spec, self.conf)
        hosts, answer = self.mirrored_hosts.find(queries, lambda: self.table, None)
        return self.driver.select(hosts, self.request(), Granting(), usages=answer.usage)


class _Get:
    """A callable that reads a prepared body over HTTP."""

    def __init__(self, body: bytes) -> None:
        class Handler(loopback.Handler):
            def do_GET(self) -> None:  # noqa: N802 - the name that http.server looks for
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = loopback.Server(Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.client = PlacementClient.from_conf(_conf_for(self.server.url))

    def __call__(self) -> bytes:
        return self.client.get("/allocation_candidates", "1.36", search=True).body


def _conf_for(url: str) -> Any:
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        file.write(f"[placement]\nauth_type = none\nendpoint_override = {url}\n")
        file.flush()
        conf = options.new()
        conf([], project="benchmark", default_config_files=[file.name], default_config_dirs=[])
        return conf
