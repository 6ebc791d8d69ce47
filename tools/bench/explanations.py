"""What it costs to explain that a request finds no valid host, and to record a request at all.

The hosts are those of the other benchmarks; a mirror read once takes the place of Placement. Each failed
request is explained from a mirror whose unit limits nobody has read yet, and then once more.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
import gc
from statistics import fmean
import time
from typing import Any
import uuid

import orjson

from scheduler.decisions.explanation import FailureExplainer, World
from scheduler.decisions.recorder import DecisionRecorder
from scheduler.decisions.trace import Trace
from scheduler.decisions.why_not import texts
from scheduler.errors import NoValidHost
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.placement.answer import Candidates, parse
from scheduler.placement.mirror import Nodes
from scheduler.placement.providers import Inventory, ProviderState
from scheduler.request import query
from scheduler.request.query import Query
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rpc.serializer import ServerSerializer
from scheduler.rules import load_filters, load_weighers
from scheduler.selection.alternates import Selections
from scheduler.selection.driver import FilterDriver
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.observer import DecisionObserver
from scheduler.workflow.decide import Offer, WithoutClaims, decide
from tools.bench import hosts as synthetic
from tools.bench import requests
from tools.bench.timing import best
from tools.rig import command

GPU = "HW_GPU_API_VULKAN"
CPU_RATIO = 4.0

#: One of so many hosts, a small one, has a GPU.
A_GPU = 21

#: Turns in which a request is decided with and without a record.
TURNS = 400


@dataclass(frozen=True)
class Case:
    """A request that finds no valid host, ``instances`` of a flavor."""

    name: str
    vcpus: int = 2
    memory_mb: int = 4096
    extra_specs: tuple[tuple[str, str], ...] = ()
    instances: int = 1

    def request(self) -> SchedulingRequest:
        uuids = [str(uuid.UUID(int=(4 << 64) + number)) for number in range(self.instances)]
        spec = requests.plain(dict(self.extra_specs), num_instances=self.instances)
        spec.flavor.vcpus, spec.flavor.memory_mb = self.vcpus, self.memory_mb
        # as it is received: the record keeps the message
        received = ServerSerializer().deserialize_entity(None, spec.obj_to_primitive())
        return SchedulingRequest.of(received, uuids, with_alternates=True)


CASES = (
    Case("a trait that no host has", extra_specs=(("trait:HW_NUMA_ROOT", "required"),)),
    Case("200 VCPU, hosts have at most 128", vcpus=200),
    Case("300,000 MiB and a trait of small hosts", 2, 300_000, ((f"trait:{GPU}", "required"),)),
    Case("600,000 MiB: each host lacks memory only", memory_mb=600_000),
    Case("a filter rejects all hosts", extra_specs=(("aggregate_instance_extra_specs:ssd", "no"),)),
    Case("60 instances of 524,000 MiB, fewer fit", 2, 524_000, (), instances=60),
)


class Placement:
    """What Placement has of the synthetic hosts, and how often it was asked."""

    def __init__(self, table: HostTable) -> None:
        self.states = {row.uuid: _state(number, row) for number, row in enumerate(table.rows)}
        self.asked = 0

    def provider(self, uuid: str) -> ProviderState | None:
        self.asked += 1
        return self.states.get(uuid)

    def inventories(self, uuid: str) -> Mapping[str, Inventory]:
        self.asked += 1
        return self.states[uuid].inventories

    def offer(self, querystring: str, placed: Sequence[Any] = ()) -> Any:
        raise AssertionError(f"a plain query is not sent to Placement: {querystring}")

    def wide_answer(self) -> bytes:
        """Return the answer that the mirror reads: without unit limits."""
        summaries = {
            uuid: {
                "root_provider_uuid": uuid,
                "resources": {
                    name: {"capacity": each.capacity, "used": state.used.get(name, 0)}
                    for name, each in state.inventories.items()
                },
                "traits": sorted(state.traits),
            }
            for uuid, state in self.states.items()
        }
        return orjson.dumps({"allocation_requests": [], "provider_summaries": summaries})


def _state(number: int, row: Any) -> ProviderState:
    inventories = {
        "VCPU": Inventory(row.vcpus_total, allocation_ratio=CPU_RATIO, max_unit=row.vcpus_total),
        "MEMORY_MB": Inventory(row.total_usable_ram_mb, max_unit=row.total_usable_ram_mb),
        "DISK_GB": Inventory(row.total_usable_disk_gb, max_unit=row.total_usable_disk_gb),
    }
    used = {"VCPU": row.vcpus_used, "MEMORY_MB": row.total_usable_ram_mb - row.free_ram_mb}
    traits = {*synthetic.TRAITS, *([GPU] if number % A_GPU == 0 else [])}
    return ProviderState(row.uuid, 1, inventories, used, frozenset(traits), frozenset())


class _Mirror(synthetic.ReadOnce):
    """A mirror that explanations look at."""

    full_nodes: Collection[str] = ()

    def known_nodes(self, _aggregates: Collection[str]) -> Nodes:
        return self.known.nodes()


class _Cloud:
    """Decides requests among the hosts of a mirror, as ``decide.World``; Placement has no others."""

    def __init__(self, table: HostTable, placement: Placement, body: bytes = b"") -> None:
        """Decide among hosts.

        Args:
            body: The answer of Placement to all requests, which takes the place of the mirror.
        """
        self.conf = requests.make_conf(
            enabled_filters=["ComputeFilter", "AggregateInstanceExtraSpecsFilter", "NumInstancesFilter"]
        )
        self._table = table
        self._body = body
        self._mirror = _Mirror(placement.wide_answer())
        instances, pending = synthetic.Instances(table), PendingPlacements()
        self._hosts = MirroredHosts(self._mirror, instances, pending)
        chain = FilterChain(load_filters.load(self.conf))
        self.driver = FilterDriver(self.conf, chain, load_weighers.load(self.conf), Fitter())
        self.explainer = FailureExplainer(
            World(
                table=lambda: table,
                mirror=self._mirror,
                questions=placement,
                chain=lambda: chain,
                is_mapped=lambda _host: True,
                instances=instances,
                pending=pending,
            )
        )

    def queries(self, request: SchedulingRequest) -> tuple[Query, ...]:
        return query.build(request.spec, self.conf)

    def mirrored(self, request: SchedulingRequest) -> Offer | None:
        found = None if self._body else self._hosts.find(request.queries, lambda: self._table, None)
        if found is None:
            return None
        hosts, answer = found
        return Offer(hosts, answer.usage, exact=bool(len(hosts)))

    def ask_placement(self, request: SchedulingRequest) -> Candidates:
        return parse(self._body, None) if self._body else Candidates(reason="no provider suits")

    def offered(self, found: Candidates, request: SchedulingRequest, *, late: bool) -> Offer:
        return Offer(synthetic.offered(self._table, found), found.usage)

    def to_check(self, request: SchedulingRequest) -> HostView:
        raise AssertionError("no request is a rebuild")

    def turn(self, request: SchedulingRequest) -> AbstractContextManager[SchedulingRequest]:
        return nullcontext(request)

    def now(self) -> float:
        return time.monotonic()

    def failed(self, case: Case) -> tuple[Trace, NoValidHost]:
        """Return the trace of a failed request, which is still to be finished."""
        request = case.request()
        trace = Trace(request)
        try:
            decide(request, self, WithoutClaims(), trace)
        except NoValidHost as error:
            return trace, error
        raise RuntimeError(f"{case.name}: there is a host")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the tables."""
    parser = command.Parser("tools/benchmark explanations", __doc__)
    parser.share(hosts=10_000)
    parser.add("--runs", 5, "explanations of each request; the best one counts")
    parser.add("--recording-hosts", 1000, "hosts of the requests that are recorded")
    parser.add("--turns", TURNS, "requests with and without a record")
    options = parser.parse_args(arguments)
    table = synthetic.table(options.hosts)
    print(f"{options.hosts} hosts; milliseconds of CPU, requests to Placement: first explanation, later ones")
    for case in CASES:
        print("{:48} {:7.1f} {:4d} {:7.1f} {:4d}  {}".format(case.name, *_explain(table, case, options.runs)))
    for name, (without, recorded) in record(options.recording_hosts, options.turns).items():
        print(
            f"{options.recording_hosts} hosts, served from {name}: {without:.3f} ms without a record, "
            f"{recorded - without:.3f} ms for it ({(recorded / without - 1):.1%})"
        )
    return 0


def _explain(table: HostTable, case: Case, runs: int) -> tuple[float, int, float, int, str]:
    """Return milliseconds and questions of the first explanation and of later ones, and its first line."""
    placement = Placement(table)
    cloud = _Cloud(table, placement)
    found: list[Trace] = []

    def finish(failed: tuple[Trace, NoValidHost]) -> None:
        trace, error = failed
        trace.finish(error, cloud.explainer.explain)
        found.append(trace)

    first = best(finish, lambda: cloud.failed(case), 1)
    asked, placement.asked = placement.asked, 0
    later = best(finish, lambda: cloud.failed(case), runs)
    why = found[-1].decision.why
    return first, asked, later, placement.asked // runs, texts(why)[0] if why else ""


def record(count: int, turns: int) -> dict[str, tuple[float, float]]:
    """Return by the source of hosts the milliseconds of a request without and with a record.

    A request is decoded, decided, and its reply is encoded.
    """
    table = synthetic.table(count)
    clouds = {
        "the mirror": _Cloud(table, Placement(table)),
        "Placement's answer": _Cloud(table, Placement(table), synthetic.answer(table)),
    }
    return {name: _in_turns(cloud, turns) for name, cloud in clouds.items()}


def _in_turns(cloud: _Cloud, turns: int) -> tuple[float, float]:
    recorder, serializer = DecisionRecorder(cloud.conf), ServerSerializer()
    message = requests.plain().obj_to_primitive()
    times: tuple[list[float], list[float]] = [], []
    gc.collect()
    gc.freeze()
    for _ in range(turns):
        for taken, work in zip(times, (_decide, partial(_decide_recorded, recorder)), strict=True):
            started = time.thread_time()
            spec = serializer.deserialize_entity(None, message)
            request = SchedulingRequest.of(spec, [requests.INSTANCE], with_alternates=True)
            serializer.serialize_entity(None, work(cloud, request))
            taken.append(time.thread_time() - started)
    without, recorded = (1000 * fmean(each) for each in times)  # some documents are encoded later, together
    return without, recorded


def _decide(cloud: _Cloud, request: SchedulingRequest) -> Selections:
    return decide(request, cloud, WithoutClaims(), _NoRecord())  # type: ignore[arg-type]


def _decide_recorded(recorder: DecisionRecorder, cloud: _Cloud, request: SchedulingRequest) -> Selections:
    trace = recorder.begin(request)
    with recorder.recording(trace):
        return decide(request, cloud, WithoutClaims(), trace)


class _NoRecord(DecisionObserver):
    """Notes nothing."""

    def mark(self, stage: str) -> None: ...

    def asked(self, queries: Sequence[Query]) -> None: ...

    def answered(self, found: Candidates) -> None: ...

    def mirrored(self, hosts: HostView, age: float) -> None: ...
