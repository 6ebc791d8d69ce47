"""What forwarding a call costs: the same call straight to a server, by way of another, and of a router.

Two servers and a router in processes of their own and a private RabbitMQ; one caller asks them in turns.
Nothing is decided: the answer is empty.
"""

from collections.abc import Sequence
import contextlib
import multiprocessing
import os
import threading
import time
from typing import Any
import uuid

import oslo_messaging as messaging
import psutil

from scheduler import conf as configuration
from scheduler import objects
from scheduler.conf import partitions
from scheduler.router.service import RouterService
from scheduler.rpc import scheduler_endpoint, serializer, server, transport
from scheduler.rpc.context import RequestContext
from tools.rig import command, servers
from tools.rig.load import Flavor

FIRST, SECOND, ROUTER = "first", "second", "router"

#: The topic of the partition that the router calls; the second server takes its calls too.
PARTITION = "berth.scheduler.p"

#: Calls before the measurement, in which connections are made.
WARM_UP = 50

FLAVOR = Flavor(1, "m1", 1, 512, 1).wire()

_PROCESSES = multiprocessing.get_context("fork")


class Manager:
    """Forwards calls to a topic, or answers them with nothing."""

    def __init__(self, topic: str = "") -> None:
        self._topic = topic

    def select_destinations(self, context: Any, *_arguments: Any) -> list[Any]:
        """Forward the call if there is a topic."""
        if self._topic:
            context.call.forward(self._topic, "benchmark")
        return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = command.Parser("tools/benchmark forwarding", __doc__)
    parser.add("--calls", 2000, "calls of each way")
    options = parser.parse_args(arguments)
    servers.stop_on_sigterm()
    with servers.rabbitmq() as rabbit, contextlib.ExitStack() as started:
        url = rabbit.vhost()
        ready = _PROCESSES.Semaphore(0)
        running = {}
        programs = {
            FIRST: (_serve, "", SECOND),
            SECOND: (_serve, "", ""),
            "partition": (_serve, PARTITION, ""),
            ROUTER: (_route, PARTITION, ""),
        }
        for host, (program, topic, forward) in programs.items():
            arguments = (url, host, topic, forward, ready)
            process = _PROCESSES.Process(target=program, args=arguments)
            process.start()
            running[host] = psutil.Process(process.pid)
            started.callback(process.join)
            started.callback(process.kill)
        if not all(ready.acquire(timeout=60) for _ in running):
            raise RuntimeError("the servers do not start")
        begun = {host: sum(process.cpu_times()[:2]) for host, process in running.items()}
        _show(_measure(url, options.calls))
        for host, process in running.items():
            spent = sum(process.cpu_times()[:2]) - begun[host]
            print(f"CPU of the {host} server: {spent * 1000 / options.calls:.2f} ms a call of one way")
    return 0


def _conf(url: str, host: str) -> Any:
    conf = configuration.new()
    conf([], default_config_files=[])
    conf.set_override("transport_url", url)
    conf.set_override("host", host)
    return conf


def _serve(url: str, host: str, topic: str, forward: str, ready: Any) -> None:
    """Run a server of calls of a topic, or without one of its own queue, which forwards calls to a topic."""
    conf = _conf(url, host)
    running = scheduler_endpoint.build(conf, transport.rpc_transport(conf), Manager(forward))
    if topic:
        running.topic = topic
    else:
        running.own_queue = server.OwnQueue(host, lambda _taken: None)
    running.start()
    ready.release()
    threading.Event().wait()


def _route(url: str, host: str, topic: str, _forward: str, ready: Any) -> None:
    conf = _conf(url, host)
    partitions.register(conf, "p")
    conf.set_override("topic", topic, f"{partitions.PREFIX}p")
    router = RouterService(conf)
    router.start()
    router.server().start()
    ready.release()
    threading.Event().wait()


def _measure(url: str, calls: int) -> dict[str, list[float]]:
    """Return the milliseconds of each call: straight, by way of the other server, and of the router."""
    target = messaging.Target(topic="scheduler", version="4.5")
    bus = transport.rpc_transport(_conf(url, "caller"))
    client = messaging.get_rpc_client(bus, target, timeout=60, serializer=serializer.ObjectSerializer())
    spec = objects.RequestSpec(project_id="p", user_id="u", flavor=FLAVOR, num_instances=1)

    def ask(host: str) -> float:
        started = time.perf_counter()
        client.prepare(server=host).call(
            RequestContext(), "select_destinations", spec_obj=spec, instance_uuids=[str(uuid.uuid4())]
        )
        return (time.perf_counter() - started) * 1000

    times = [(ask(SECOND), ask(FIRST), ask(ROUTER)) for _ in range(WARM_UP + calls)][WARM_UP:]
    bus.cleanup()
    straight, forwarded, routed = zip(*times, strict=True)
    return {"straight": list(straight), "forwarded": list(forwarded), "by a router": list(routed)}


def _show(times: dict[str, list[float]]) -> None:
    straight = _quantiles(times["straight"])
    print(f"{len(times['straight'])} calls each way, load {os.getloadavg()[0]:.1f}; milliseconds")
    print(f"{'':18} {'p10':>7} {'p50':>7} {'p90':>7} {'p99':>7}")
    for name, found in times.items():
        values = _quantiles(found)
        print(f"{name:18} " + " ".join(f"{value:7.2f}" for value in values))
        if values != straight:
            added = [b - a for a, b in zip(straight, values, strict=True)]
            print(f"{'  added':18} " + " ".join(f"{value:7.2f}" for value in added))


def _quantiles(times: list[float]) -> list[float]:
    ordered = sorted(times)
    return [ordered[int(share * (len(ordered) - 1))] for share in (0.1, 0.5, 0.9, 0.99)]
