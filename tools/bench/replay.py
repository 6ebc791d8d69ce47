"""What it costs to read the decision stream at a start, before the first request.

A private RabbitMQ has a stream in which other schedulers have written, for each instance, an intent and a
claim. A decision stream of Berth reads it as it does at a start: up to its own HELLO, over a table of hosts.
"""

from collections.abc import Iterator, Sequence
from functools import partial
import itertools
import os
import time
from typing import NamedTuple
import uuid

import kombu

from scheduler import conf as configuration
from scheduler.hosts.pending import PendingPlacements
from scheduler.hosts.table import HostTable
from scheduler.stream.broker import QUEUE, BrokerOptions, StreamBroker
from scheduler.stream.decision_stream import DecisionStream
from scheduler.stream.records import VERSION, Entry, Kind, Member, Record, encode
from scheduler.stream.shared_decisions import LocalState
from tools.bench import hosts
from tools.rig import command, servers

SENDERS = 8

#: Seconds in which the stream must be read.
TIMEOUT = 120.0

COLUMNS = {"free_ram_mb": -4096, "free_disk_mb": -20480, "vcpus_used": 2, "num_instances": 1, "num_io_ops": 1}


class NoMirror:
    """Ignores the claims of others."""

    def heard(self, *_claim: object) -> None:
        """Ignore a claim or a release."""


class Reading(NamedTuple):
    """One start: seconds of wall time and of CPU, and the placements that are pending after it."""

    wall: float
    cpu: float
    pending: int


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print the table."""
    parser = command.Parser("tools/benchmark replay", __doc__)
    parser.share(hosts=10_000)
    parser.add("--records", 100_000, "records of the stream")
    parser.add("--runs", 3, "starts; the best one counts")
    parser.add("--a-message", [1, 2, 3, 10], "records of one message", type=int, nargs="+")
    options = parser.parse_args(arguments)
    servers.stop_on_sigterm()
    table = hosts.table(options.hosts)
    print(f"{options.records} records over {options.hosts} hosts, best of {options.runs} starts; seconds")
    print(f"{'a message':>10} {'wall':>7} {'CPU':>7} {'pending':>8} {'load':>6}")
    with servers.rabbitmq() as rabbit:
        for each in options.a_message:
            url = rabbit.vhost()
            _write(url, table, options.records, each)
            wall, cpu, pending = zip(*(_read(url, table) for _ in range(options.runs)), strict=True)
            load = os.getloadavg()[0]
            print(f"{each:10} {min(wall):7.2f} {min(cpu):7.2f} {min(pending):8} {load:6.1f}", flush=True)
    return 0


def _broker(url: str) -> StreamBroker:
    conf = configuration.new()
    conf([], default_config_files=[])
    conf.set_override("transport_url", url)
    options = BrokerOptions.from_conf(conf)
    if options is None:
        raise RuntimeError("the transport is not RabbitMQ")
    return StreamBroker(options, "benchmark")


def _write(url: str, table: HostTable, count: int, each: int) -> None:
    """Write the records, so many of them in each message, and wait until the broker has them."""
    _broker(url).connect("writer").close()  # makes the stream
    records = itertools.islice(_records(table), count)
    with kombu.Connection(url.replace("rabbit://", "amqp://")) as connection:
        connection.transport_options = {"confirm_publish": False}
        channel = connection.channel()
        written = 0
        while batch := list(itertools.islice(records, each)):
            for body, _ in encode(batch):
                channel.basic_publish(
                    channel.prepare_message(body, content_type="application/json"), "", QUEUE
                )
                written += 1
        deadline = time.monotonic() + TIMEOUT
        while channel.queue_declare(QUEUE, passive=True).message_count < written:
            if time.monotonic() > deadline:
                raise RuntimeError("the broker does not take the records")
            time.sleep(0.1)


def _records(table: HostTable) -> Iterator[Record]:
    """Yield an intent and a claim for one instance after the other, of all senders in turns."""
    counters = [itertools.count() for _ in range(SENDERS)]
    for number in itertools.count():
        sender, row = number % SENDERS, table.rows[number % len(table.rows)]
        entry = partial(
            Entry, instance=str(uuid.uuid4()), node=row.uuid, columns=COLUMNS, updated=row.updated
        )
        resources = {"VCPU": 2, "MEMORY_MB": 4096, "DISK_GB": 20}
        for kind, entries in ((Kind.INTENT, entry()), (Kind.CLAIMED, entry(resources=resources))):
            yield Record(
                version=VERSION,
                kind=kind,
                sender=f"sender-{sender}",
                counter=next(counters[sender]),
                time=time.time(),
                entries=(entries,),
            )


def _read(url: str, table: HostTable) -> Reading:
    pending = PendingPlacements()
    own = Member(uuid.uuid4().hex, "benchmark")
    stream = DecisionStream(_broker(url), LocalState(pending, lambda: table, NoMirror()), own)
    wall, cpu = time.perf_counter(), time.process_time()
    stream.start()
    if not stream.wait_until_caught_up(TIMEOUT):
        raise RuntimeError("the stream was not read")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    stream.stop()
    return Reading(wall, cpu, len(pending))
