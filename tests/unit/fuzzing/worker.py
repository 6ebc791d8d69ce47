"""What mutated input is fed to: the parts of a worker process, with Placement and message bus replaced.

The databases are SQLite files with a small fleet. Who sleeps moves the one clock on: nothing waits.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
import random
import threading
import time
from types import SimpleNamespace
from typing import Any

from oslo_serialization import jsonutils

from scheduler.filters import builtin
from scheduler.manager import SchedulerManager
from scheduler.nova_db.inventory import HostInventory
from scheduler.parts import Outside, put_together
from scheduler.placement.client import PlacementClient
from scheduler.placement.write_policy import Timing
from scheduler.request.network import NeutronNetwork
from scheduler.rpc import methods, payloads, scheduler_endpoint, wire
from scheduler.rpc.calls import Call
from scheduler.stream.broker import StreamConnection, StreamUnavailable
from scheduler.stream.decision_stream import DecisionStream
from tests.unit.fuzzing.mutations import Json
from tools.rig.fleet import Host
from tools.rig.world import RunningWorld, World
from tools.simulation.placement import Placement, Provider

HOSTS = 8
NO_PLACEMENT = "http://127.0.0.1:1"
METRICS = ("cpu.percent=-1.0", "cpu.frequency=0.5")
PREFILTERS = ("limit_tenants_to_placement_aggregate", "query_placement_for_image_type_support")


class Worker(RunningWorld):
    """A context manager for one worker without processes.

    Attributes:
        manager: The scheduler.
        placement: Answers in place of Placement.
        stream: The decision stream; it is not connected.
    """

    manager: SchedulerManager
    stream: DecisionStream

    def __init__(self, directory: str | Path) -> None:
        """Prepare a worker; its databases are created in ``directory`` on entry."""
        super().__init__(World(HOSTS, placement=NO_PLACEMENT, bus="memory", daemons=()), directory)

    def _start(self) -> None:
        super()._start()
        self.placement = ScriptedPlacement(self.fleet.hosts)
        self._set_options()
        self.manager = self._make_manager()
        self.manager.start()
        self.callback(self.manager.stop, lambda: 5)
        self._methods = scheduler_endpoint.methods(self.conf, self.manager)

    def call(self, message: Mapping[str, Json], context: Mapping[str, Json]) -> "Answer":
        """Handle a message as if it had come from the bus.

        Args:
            message: ``method``, ``args``, ``version`` and ``namespace``.
            context: The request context of the caller, as it is sent.
        """
        wrapped = {f"_context_{key}": value for key, value in context.items()}
        frame = wire.read({**wrapped, "_msg_id": "fuzz", "_reply_q": "fuzz", "_unique_id": "fuzz", **message})
        return _sent(frame, self._methods.call(Call(frame)))

    def _set_options(self) -> None:
        conf = self.conf
        conf.set_override("enabled_filters", enabled_filters(), "filter_scheduler")
        conf.set_override("weight_setting", list(METRICS), "metrics")
        conf.set_override("required", False, "metrics")
        conf.set_override("outage_patience", 0.0, "berth")
        for name in PREFILTERS:
            conf.set_override(name, True, "scheduler")

    def _make_manager(self) -> SchedulerManager:
        clock = SkippedTime()
        client = PlacementClient(self.placement, sleep=clock.sleep, clock=clock)
        timing = Timing(clock, clock.sleep, random.Random(0).uniform)
        hosts = HostInventory(self.conf, clock)
        outside = Outside(hosts, client, NeutronNetwork.from_conf(self.conf), timing)
        parts = put_together(
            self.conf,
            outside,
            make_stream=lambda _conf, state: DecisionStream(NoBroker(), state, "own", "own", monotonic=clock),
        )
        self.stream = parts.stream
        return SchedulerManager(self.conf, EveryPayload(), parts)


class NoBroker:
    """Is never connected to: messages are handed to the stream."""

    def connect(self, purpose: str) -> StreamConnection:
        raise StreamUnavailable(purpose)


def enabled_filters() -> list[str]:
    """Return the names of all filters but those that no host of the fleet passes."""
    names = [each.__name__ for each in builtin.ALL]
    return [name for name in names if not name.startswith(("Exact", "Metrics"))]


@dataclass
class Answer:
    """What the caller of a message gets.

    Attributes:
        result: The result, as it was sent.
        error: The name of the class of the exception; None for a result.
        module: The module of this class.
        text: The text of the exception.
    """

    result: Json = None
    error: str | None = None
    module: str = ""
    text: str = ""


def _sent(frame: wire.Frame, answer: methods.Answer) -> Answer:
    """Return what goes over the wire."""
    envelope = wire.reply(frame, answer.result, answer.failure)
    sent = jsonutils.loads(envelope["oslo.message"])
    if sent["failure"] is None:
        return Answer(sent["result"])
    failure = jsonutils.loads(sent["failure"])
    return Answer(None, failure["class"], failure["module"], str(failure["message"]))


class SkippedTime:
    """``time.monotonic`` and the time that was slept, of which nothing is waited."""

    def __init__(self) -> None:
        self._slept = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._slept

    def sleep(self, seconds: float) -> None:
        self._slept += max(seconds, 0.0)


class EveryPayload:
    """Makes the body of each kind of notification, and sends none."""

    def select_destinations_start(self, context: Any, spec: Any) -> None:
        for payload in (payloads.unversioned_request(spec), payloads.versioned_request(spec)):
            jsonutils.dumps(payload)

    select_destinations_end = select_destinations_start

    def stop(self, timeout: float) -> None:
        """Do nothing."""


@dataclass
class ScriptedResponse:
    """A response of Placement; ``body`` is JSON, or a text that is sent as it is."""

    status: int = 200
    body: Json = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        """The body as it is sent."""
        if isinstance(self.body, str):
            return self.body.encode("utf-8", "surrogatepass")
        return jsonutils.dump_as_bytes(self.body)


class ScriptedPlacement:
    """Stands in for a keystoneauth adapter: offers every host and grants every claim unless told otherwise.

    Only requests of the thread that set ``script`` get answers from it; background work gets the usual ones.
    """

    connect_retries = 0
    connect_retry_delay = 0.0

    def __init__(self, hosts: list[Host]) -> None:
        self.candidates = candidates_of(hosts)
        self.script: Mapping[str, ScriptedResponse] = {}
        self._thread = threading.get_ident()
        self.session = SimpleNamespace(session=None)

    def get_token(self) -> str:
        return "admin"

    def get_endpoint(self) -> str:
        return NO_PLACEMENT

    def invalidate(self) -> None:
        """Do nothing."""

    def request(self, path: str, method: str, **options: Any) -> Any:
        scripted = self.script if threading.get_ident() == self._thread else {}
        response = scripted.get(_kind(path, method)) or self._usual(path, method)
        return SimpleNamespace(
            status_code=response.status,
            headers={},
            iter_content=lambda _: [response.data],
            content=response.data,
        )

    def _usual(self, path: str, method: str) -> ScriptedResponse:
        kind = _kind(path, method)
        if kind == "candidates":
            return ScriptedResponse(200, self.candidates)
        if kind == "allocations":
            return ScriptedResponse(200, {"allocations": {}})
        if kind == "write":
            return ScriptedResponse(204, "")
        if path.startswith("/resource_providers?"):
            return ScriptedResponse(200, {"resource_providers": []})
        return ScriptedResponse(404, {"errors": [{"status": 404, "detail": "nothing of that name"}]})


def _kind(path: str, method: str) -> str:
    if method != "GET":
        return "write"
    return {"allocation_candidates": "candidates", "allocations": "allocations"}.get(
        path.strip("/").partition("?")[0].partition("/")[0], "other"
    )


def candidates_of(hosts: list[Host]) -> Json:
    """Return Placement's response that offers one vCPU and some memory on each host."""
    room = {name: {"total": 10**6} for name in ("VCPU", "MEMORY_MB", "DISK_GB")}
    placement = Placement([Provider(host.uuid, room, {"COMPUTE_NODE"}) for host in hosts])
    answer = placement.read("/allocation_candidates?resources=VCPU:1,MEMORY_MB:512,DISK_GB:1")
    return jsonutils.loads(answer.body)
