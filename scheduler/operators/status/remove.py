"""berth-status remove: what Berth leaves on the broker and on this machine, once it has ended.

Exit status: 0 nothing is left, 1 something was kept, or a dry run found something, 255 it could not be run.

Queues with a name that has a random part are left to the broker. It removes those for forwarded calls ten
minutes after their last use, those of replies and of fanout messages after 30 minutes. The name of a reply
queue does not say whether it is Berth's or nova's.
"""

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
import shutil
import tempfile
from typing import NamedTuple

import amqp
import kombu
from oslo_config import cfg

from scheduler.bounds.temporary_directories import abandoned
from scheduler.claims.spool_file import SUFFIX, TEMPORARY_PREFIX, spool_directory
from scheduler.conf import partitions
from scheduler.errors import BerthError
from scheduler.operators.audit.spooled import spooled
from scheduler.operators.shown.command import ShownCommand
from scheduler.operators.shown.shown import Head, Shown, Table
from scheduler.operators.shown.tables import records
from scheduler.rpc import explain
from scheduler.stream.broker import BrokerOptions, StreamUnavailable, stream_of

LEFT = 1

Row = tuple[str, str, str]

#: Seconds in which a host of the broker must accept a connection.
TIMEOUT = 5.0

#: Workers of a daemon whose queues are looked for, if its configuration has no more now.
WORKERS = 64

REMOVED, WOULD_REMOVE = "removed", "would be removed"


class CannotRemove(BerthError):
    """A scheduler still runs, or the broker does not answer."""


class Queue(NamedTuple):
    """A queue of Berth.

    Attributes:
        calls: Whether its messages are calls that somebody waits for.
        own: Whether only the scheduler of this host uses it.
    """

    name: str
    calls: bool = False
    own: bool = False


class RemoveCommand(ShownCommand):
    """Remove what Berth leaves on the broker and on this machine. Run it on each controller.

    Exit status: 0 nothing is left, 1 something was kept, or a dry run found something, 255 it could not run.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("--dry-run", action="store_true", help="only show what would be removed")
        parser.add_argument(
            "--force",
            action="store_true",
            help="remove what only the scheduler of this host uses though it seems to run; queues that "
            "others use are kept nevertheless",
        )
        return parser

    def show(self, args: argparse.Namespace) -> Shown:
        broker = BrokerOptions.from_conf(self.conf)
        rows = list[Row]()
        if broker is not None:
            rows += self._on_broker(self.conf, broker, args)
        rows += _on_disk(self.conf, dry_run=args.dry_run)
        table = Table(("Kind", "Name", "Result"), rows, commands=True)
        left = LEFT if any(row[-1] != REMOVED for row in rows) else 0
        return Shown(records(table), Head("What Berth leaves"), [table], status=left)

    def _on_broker(
        self, conf: cfg.ConfigOpts, broker: BrokerOptions, args: argparse.Namespace
    ) -> Iterator[Row]:
        with _connected(broker) as connection:
            found = {queue: state for queue in queues(conf) if (state := _state(connection, queue.name))}
            running = [queue.name for queue, (_, consumers) in found.items() if queue.own and consumers]
            if running and not args.force:
                raise CannotRemove(
                    f"A scheduler runs on this host and consumes from {running[0]}; stop it first. "
                    "Nothing was removed"
                )
            shared_in_use = False
            for queue, (messages, consumers) in found.items():
                result = WOULD_REMOVE if args.dry_run else REMOVED
                if consumers and not queue.own:
                    result = f"kept: {consumers} consumers of other schedulers use it"
                    shared_in_use = True
                elif queue.calls and messages:
                    result = f"kept: {messages} calls wait in it"
                elif not args.dry_run:
                    _delete(connection, queue.name)
                yield "queue", queue.name, result
            fanout = f"{explain.TOPIC}_fanout"
            if not shared_in_use and _exchange_exists(connection, fanout):
                if not args.dry_run:
                    with connection.channel() as channel:
                        channel.exchange_delete(fanout)
                yield "exchange", fanout, WOULD_REMOVE if args.dry_run else REMOVED


def queues(conf: cfg.ConfigOpts) -> list[Queue]:
    """Return the queues that this configuration names and that stay until somebody removes them."""
    workers = max(WORKERS, conf.scheduler.workers or 0)
    found = [
        Queue(f"{explain.TOPIC}.{explain.server_name(conf.host, number)}", own=True)
        for number in range(workers)
    ]
    names = {"", partitions.own_name(conf), *(each.name for each in partitions.all_partitions(conf))}
    found += [Queue(stream_of(name)) for name in sorted(names)]
    for each in partitions.all_partitions(conf):
        found += [
            Queue(f"{each.topic}.{conf.host}", calls=True, own=True),
            Queue(each.topic, calls=True),
            Queue(f"{each.topic}_fanout"),
        ]
    return [*found, Queue(explain.TOPIC), Queue(f"{explain.TOPIC}_fanout")]


# -- broker ------------------------------------------------------------------------------------------------


@contextmanager
def _connected(broker: BrokerOptions) -> Iterator[kombu.Connection]:
    reasons = []
    for host in broker.hosts:
        try:
            connection = broker.connection_to(host, TIMEOUT)
        except StreamUnavailable as error:
            reasons.append(str(error))
            continue
        with connection:
            try:
                yield connection
            except (amqp.AMQPError, OSError) as error:
                raise CannotRemove(f"Broker {host} failed: {error}") from error
        return
    raise CannotRemove(f"The broker does not answer: {'; '.join(reasons)}. Nothing was removed")


def _state(connection: kombu.Connection, queue: str) -> tuple[int, int] | None:
    """Return how many messages and consumers a queue has; None if there is no such queue."""
    try:
        with connection.channel() as channel:
            found = channel.queue_declare(queue, passive=True)
            return found.message_count, found.consumer_count
    except amqp.NotFound:
        return None


def _exchange_exists(connection: kombu.Connection, exchange: str) -> bool:
    try:
        with connection.channel() as channel:
            channel.exchange_declare(exchange, "fanout", passive=True)
            return True
    except amqp.NotFound:
        return False


def _delete(connection: kombu.Connection, queue: str) -> None:
    with connection.channel() as channel:
        channel.queue_delete(queue)


# -- disk --------------------------------------------------------------------------------------------------


def _on_disk(conf: cfg.ConfigOpts, *, dry_run: bool) -> Iterator[Row]:
    done = WOULD_REMOVE if dry_run else REMOVED
    directory = spool_directory(conf)
    if directory is not None and directory.is_dir():
        yield "spool", str(directory), _remove_spool(directory, dry_run=dry_run)
    for path in abandoned(TEMPORARY_PREFIX, Path(conf.tempdir or tempfile.gettempdir())):
        if not dry_run:
            shutil.rmtree(path)
        yield "temporary spool", str(path), done
    for kind, path in (("decision log", conf.berth.decision_log), ("log directory", conf.log_dir)):
        if path and Path(path).exists():
            yield kind, str(path), "kept: it may have files of others; remove it if it is not needed"


def _remove_spool(directory: Path, *, dry_run: bool) -> str:
    if unsettled := spooled(directory):
        return (
            f"kept: {len(unsettled)} instances in it may hold allocations that are to be released; run "
            "`berth-status audit --fix` first"
        )
    if others := [path for path in directory.iterdir() if path.suffix != SUFFIX]:
        return f"kept: it has other files, such as {others[0].name}"
    if dry_run:
        return WOULD_REMOVE
    shutil.rmtree(directory)
    return REMOVED
