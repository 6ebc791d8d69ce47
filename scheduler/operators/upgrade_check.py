"""berth-status upgrade check: can Berth replace nova-scheduler here?

Exit status, as of nova-status: 0 no findings, 1 warnings, 2 failures, 255 it could not be run. Nothing is
written; queues that are declared on the broker are deleted again if they did not exist before.
"""

import argparse
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from functools import partial
import logging
from typing import Any, NamedTuple

from amqp import exceptions as amqp
from keystoneauth1 import exceptions as keystone
import kombu
from oslo_config import cfg
import requests
import sqlalchemy as sa

from scheduler import conf as options
from scheduler.conf import derived
from scheduler.conf.log_output import log_output
from scheduler.conf.partitions import own_name
from scheduler.decisions.rendering import first
from scheduler.errors import BerthError, ConfigError
from scheduler.logs import brief, count_text
from scheduler.nova_db.cells import CELL0, UNREADABLE, Cell, read_cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.schema import API, CELL, OLDEST_SUPPORTED, compute_nodes, host_mappings, services
from scheduler.operators.shown.command import ShownCommand, records
from scheduler.operators.shown.shown import BAD, GOOD, Head, Shown, Table
from scheduler.placement.client import NEEDED_VERSION, newest_version
from scheduler.placement.mirror import WIDE_QUERY, read_wide
from scheduler.placement.providers import decode_list, list_path
from scheduler.placement.reply import Reply
from scheduler.placement.session import make_adapter
from scheduler.request.query import MICROVERSION
from scheduler.rpc.explain import TOPIC as EXPLAIN
from scheduler.rpc.transport import TOPIC, advice, refusal_in, rpc_transport
from scheduler.rules import load_filters, load_weighers, nova_modules
from scheduler.stream.broker import BrokerHost, StreamConnection, StreamUnavailable, broker_hosts, stream_of

TIMEOUT = 10.0

BROKER_FAILURES = (StreamUnavailable, OSError, kombu.exceptions.OperationalError, amqp.AMQPError)

CUT = "Limit of Placement's responses"

# Seconds for an answer about all compute nodes.
SEARCH_TIMEOUT = 120.0


_some = partial(first, most=5)


class Level(IntEnum):
    """What a check found; the highest one is the exit status."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


class Checked(NamedTuple):
    """One line of the result."""

    state: Level
    check: str
    detail: str
    next_step: str = ""


failed, warned, passed = (partial(Checked, level) for level in (Level.FAILURE, Level.WARNING, Level.SUCCESS))


class UpgradeCheckCommand(ShownCommand):
    """Check that Berth can replace nova-scheduler here. Run it before the swap. Nothing is written.

    Exit status: 0 no findings, 1 warnings, 2 failures, 255 it could not run.
    """

    def show(self, args: argparse.Namespace) -> Shown:
        # Each error is a row of the table
        logging.disable(logging.ERROR)
        try:
            found = list(check(self.conf))
        finally:
            logging.disable(logging.NOTSET)
        return shown(found)


def shown(found: Sequence[Checked]) -> Shown:
    """Return what is shown of a check."""
    worst = max(one.state for one in found)
    rows = [(one.state.name.title(), one.check, one.detail, one.next_step) for one in found]
    looks = {number: BAD for number, one in enumerate(found) if one.state is Level.FAILURE}
    table = Table(("Result", "Check", "Detail", "Next step"), rows, looks=looks, commands=True)
    look = {Level.SUCCESS: GOOD, Level.WARNING: "", Level.FAILURE: BAD}[worst]
    head = Head(f"Can Berth replace nova-scheduler? {worst.name.title()}", look=look)
    return Shown(records(table), head, [table], status=int(worst))


def check(conf: cfg.ConfigOpts) -> Iterator[Checked]:
    engines = Engines(conf)
    try:
        yield from _options(conf)
        yield from _log(conf)
        yield from _rules(conf)
        yield from _databases(conf, engines)
        yield from _placement(conf)
        yield from _broker(conf)
    finally:
        engines.dispose()


# -- options and rules -----------------------------------------------------------------------------------


def _options(conf: cfg.ConfigOpts) -> Iterator[Checked]:
    found = False
    lost = set(derived.lost_log(conf))
    for remark in options.remarks(conf):
        if remark in lost:
            continue
        found = True
        yield warned("Options", remark, "Correct nova.conf, unless this is intended")
    for use, step in (
        (derived.check_driver, "Keep nova-scheduler, or use the driver db"),
        (options.check_files, "Correct nova.conf, or mount the file"),
    ):
        try:
            use(conf)
        except ConfigError as error:
            found = True
            yield failed("Options", str(error), step)
    if not found:
        yield passed("Options", "All values can be used")


def _log(conf: cfg.ConfigOpts) -> Iterator[Checked]:
    output = log_output(conf)
    if output is None:
        text = f"[DEFAULT]/log_config_append: {conf.log_config_append} cannot be read"
        yield failed("Log", text, "Correct it; `berth-scheduler --check-config` says what is wrong")
    elif output.places:
        yield passed("Log", str(output))
    for text in derived.lost_log(conf):
        yield warned("Log", text, "Give the logger nova a handler in this file")


def _rules(conf: cfg.ConfigOpts) -> Iterator[Checked]:
    nova_modules.provide(conf)
    for what, load in (("Filters", load_filters.load), ("Weighers", load_weighers.load)):
        try:
            names = [rule.name for rule in load(conf)]
        except BerthError as error:
            yield failed(
                what,
                str(error),
                "Correct [filter_scheduler] in nova.conf, or install the package of the class here",
            )
        except Exception as error:  # noqa: BLE001 - a rule of an operator may raise anything
            text = f"{type(error).__name__}: {brief(error)}"
            yield failed(what, text, "Correct the class: it cannot be imported or made")
        else:
            yield passed(what, ", ".join(names))


# -- databases -------------------------------------------------------------------------------------------


def _databases(conf: cfg.ConfigOpts, engines: Engines) -> Iterator[Checked]:
    where, mapped, cells = "API database", set[str](), list[Cell]()
    try:
        with engines.api_connection() as connection:
            yield from _schema(connection, where, API)
            cells = list(read_cells(connection, conf.database.connection))
            mapped = set(connection.execute(sa.select(host_mappings.c.host)).scalars())
    except UNREADABLE as error:
        yield _unreachable(where, error, "[api_database]/connection")
        return
    if not any(cell.uuid != CELL0 for cell in cells):
        yield failed(
            "Cells", "No cell except cell0 is mapped", "Create one: `nova-manage cell_v2 create_cell`"
        )
    for cell in cells:
        if not cell.enabled:
            text = f"{cell} is disabled: only requests that name it get its hosts"
            yield warned(
                "Cells",
                text,
                f"Unless intended: `nova-manage cell_v2 update_cell --cell_uuid {cell.uuid} --enable`",
            )
        yield from _cell(engines, cell, mapped)


def _cell(engines: Engines, cell: Cell, mapped: set[str]) -> Iterator[Checked]:
    name = cell.name or cell.uuid
    where = f"Database of cell {name}"
    try:
        if cell.url is None:
            raise ConfigError("the cell has no database connection")
        with engines.cell(cell.uuid, cell.url).connect() as connection:
            yield from _schema(connection, where, CELL)
            rows = connection.execute(
                sa.select(services.c.host, services.c.binary, services.c.version).where(
                    services.c.deleted == 0
                )
            ).all()
            nodes = connection.execute(sa.select(compute_nodes.c.host).where(compute_nodes.c.deleted == 0))
            with_nodes = set(nodes.scalars()) - {None}
    except UNREADABLE as error:
        yield _unreachable(where, error, "the cell's URL (`nova-manage cell_v2 list_cells --verbose`)")
        return
    computes = {row.host for row in rows if row.binary == "nova-compute"}
    if unmapped := sorted(computes - mapped):
        hosts = count_text(len(unmapped), "host")
        text = f"In cell {name} {hosts} without a host mapping: {_some(unmapped)}"
        yield warned("Host mappings", text, "Map them: `nova-manage cell_v2 discover_hosts`")
    if lost := sorted(with_nodes - computes):
        text = f"In cell {name} {count_text(len(lost), 'host')} without a service record: {_some(lost)}"
        step = "Restart nova-compute there; if a host is gone, delete its row of compute_nodes"
        yield warned("Compute services", text, step)
    old = sorted(
        {f"{row.binary} on {row.host}" for row in rows if row.version and row.version < OLDEST_SUPPORTED}
    )
    if old:
        text = f"Older than nova 27 (service version {OLDEST_SUPPORTED}): {_some(old)}"
        yield warned("Versions", text, "Upgrade them, or delete the rows of services that are gone")


def _schema(connection: sa.Connection, where: str, metadata: sa.MetaData) -> Iterator[Checked]:
    inspector = sa.inspect(connection)
    present = set(inspector.get_table_names())
    missing = []
    for table in metadata.sorted_tables:
        if table.name not in present:
            missing.append(table.name)
            continue
        columns = {column["name"] for column in inspector.get_columns(table.name)}
        missing += [f"{table.name}.{column.name}" for column in table.columns if column.name not in columns]
    if missing:
        sync = "api_db sync" if metadata is API else "db sync"
        text = f"Tables or columns are missing: {_some(missing)}"
        yield failed(where, text, f"With nova 27 or later: `nova-manage {sync}`")
    else:
        yield passed(where, "Reachable, with a known schema")


def _unreachable(where: str, error: Exception, option: str) -> Checked:
    return failed(where, f"Cannot read it: {brief(error)}", f"Check {option}, server and rights")


# -- Placement -------------------------------------------------------------------------------------------


def _placement(conf: cfg.ConfigOpts) -> Iterator[Checked]:
    step = "Check [placement] in nova.conf, and that Keystone and Placement respond"
    try:
        adapter = make_adapter(conf)
        adapter.get_token()
        root = adapter.get("/", timeout=TIMEOUT, authenticated=False)
        newest = newest_version(Reply(root.status_code, root.content))
        if newest is None:
            raise ValueError(f"{root.url}: HTTP {root.status_code}, which is not a response of Placement")
        reply = adapter.get("/resource_classes", microversion="1.36", timeout=TIMEOUT, raise_exc=False)
    except keystone.Unauthorized as error:
        yield failed("Placement", f"Keystone refuses the credentials: {brief(error)}", step)
    except (keystone.ClientException, requests.RequestException, BerthError, ValueError) as error:
        yield failed("Placement", brief(error), step)
    else:
        if newest < NEEDED_VERSION:
            text = f"Its newest version is {newest[0]}.{newest[1]}; 1.36 is needed"
            yield failed("Placement", text, "Upgrade Placement to Train or later")
        elif reply.status_code != 200:
            text = f"It responds with {reply.status_code} to this user"
            yield failed("Placement", text, "Give the user of [placement] the role service or admin")
        else:
            yield passed("Placement", f"Answers, with version {newest[0]}.{newest[1]}")
            yield from cut_answers(partial(adapter.get, microversion=MICROVERSION, timeout=SEARCH_TIMEOUT))


def cut_answers(get: Callable[[str], requests.Response]) -> Iterator[Checked]:
    """Yield a warning if a response on all compute nodes lacks some: Placement limits its responses."""
    path = list_path({"MEMORY_MB": 1})
    try:
        before = _roots(get(path))
        named = read_wide(get(f"/allocation_candidates?{WIDE_QUERY}").content).nodes.row_of_uuid.keys()
        missing = (before & _roots(get(path))) - named
    except (keystone.ClientException, requests.RequestException, BerthError) as error:
        yield warned(CUT, f"Compute nodes cannot be listed: {brief(error)}", "Try again")
        return
    if missing:
        total = len(named) + len(missing)
        yield warned(
            CUT,
            f"One response has {len(named)} of {total} compute nodes with free memory",
            f"Set [placement]/max_allocation_candidates in Placement's configuration to {total} or more",
        )


def _roots(reply: requests.Response) -> set[str]:
    return {one.uuid for one in decode_list(Reply(200, reply.content)) if one.is_root}


# -- broker ----------------------------------------------------------------------------------------------


def _broker(conf: cfg.ConfigOpts) -> Iterator[Checked]:
    step = "Check [DEFAULT]/transport_url and that RabbitMQ runs"
    try:
        rpc_transport(conf).cleanup()
        hosts = broker_hosts(conf)
    except ConfigError as error:
        yield failed("Message broker", str(error), "Correct the option in nova.conf")
        return
    if not hosts:
        text = "The driver is not that of RabbitMQ, so the broker is not checked"
        yield warned("Message broker", text, "Berth is tested with RabbitMQ only")
        return
    for host in hosts:
        name = f"Message broker {host}"
        try:
            with host.connect(TIMEOUT) as connection:
                yield passed(name, _check_queue(conf.oslo_messaging_rabbit, connection))
                yield from _own_queues(conf, host, connection)
        except BROKER_FAILURES as error:
            reason = brief(error).removeprefix(f"broker {host}: ")
            yield failed(name, *_advised(error, (reason, step)))


def _advised(error: Exception, otherwise: tuple[str, str]) -> tuple[str, str]:
    """Return what the broker refuses and what to do; other words if the error is no refusal."""
    refusal = refusal_in(error)
    text, _, step = advice(refusal).partition("; ") if refusal else (otherwise[0], "", otherwise[1])
    return text, step


def _own_queues(conf: cfg.ConfigOpts, host: BrokerHost, connection: kombu.Connection) -> Iterator[Checked]:
    """Yield a warning if the broker refuses the queues that nova-scheduler does not have.

    They are declared as the daemon does it, and deleted again if they were not there.
    """
    name = f"Queues of Berth on {host}"
    queue = stream_of(own_name(conf)) if conf.berth.decision_stream else ""
    try:
        if queue:
            is_new = not _exists(connection, queue)
            with host.connect(TIMEOUT) as reading:
                stream = StreamConnection(reading, host, queue)
                stream.declare()
                stream.subscribe("next")
            if is_new:
                connection.default_channel.queue_delete(queue)
        if not _exists(connection, EXPLAIN):
            _declare(conf.oslo_messaging_rabbit, connection, EXPLAIN)
            connection.default_channel.queue_delete(EXPLAIN)
    except BROKER_FAILURES as error:
        alone = "Check that RabbitMQ has streams (3.9 or later); without them schedulers share no decisions"
        yield warned(name, *_advised(error, (brief(error), alone)))
    else:
        yield passed(name, "The broker accepts them")


def _exists(connection: kombu.Connection, queue: str) -> bool:
    try:
        with connection.channel() as channel:
            channel.queue_declare(queue, passive=True)
    except amqp.NotFound:
        return False
    return True


def _check_queue(rabbit: Any, connection: kombu.Connection) -> str:
    """Return what there is of the queue; the broker refuses a declaration with other properties."""
    if not _exists(connection, TOPIC):
        return f"Answers; queue {TOPIC} does not exist and will be created"
    _declare(rabbit, connection, TOPIC)
    kind = "quorum" if rabbit.rabbit_quorum_queue else "classic"
    return f"Answers; queue {TOPIC} exists with the wanted type ({kind})"


def _declare(rabbit: Any, connection: kombu.Connection, queue: str) -> None:
    """Declare a queue as oslo.messaging does; for a queue that exists RabbitMQ compares the properties."""
    quorum = rabbit.rabbit_quorum_queue
    limits = {
        "x-queue-type": "quorum",
        "x-delivery-limit": rabbit.rabbit_quorum_delivery_limit,
        "x-max-in-memory-length": rabbit.rabbit_quorum_max_memory_length,
        "x-max-in-memory-bytes": rabbit.rabbit_quorum_max_memory_bytes,
    }
    with connection.channel() as channel:
        channel.queue_declare(
            queue,
            durable=rabbit.amqp_durable_queues or quorum,
            auto_delete=rabbit.amqp_auto_delete,
            arguments={name: value for name, value in limits.items() if value} if quorum else None,
        )
