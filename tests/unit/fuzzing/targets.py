"""Where input enters the scheduler: each target takes one kind of it, and gives what comes of it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
import functools
from typing import Any

from oslo_serialization import jsonutils
import sqlalchemy as sa

from scheduler import objects
from scheduler.nova_db import schema
from tests.support.wire_examples import envelope
from tests.unit.fuzzing import corpus
from tests.unit.fuzzing.mutations import SECRET, Json, copied
from tests.unit.fuzzing.oracle import Outcome
from tests.unit.fuzzing.worker import ScriptedResponse, Worker
from tools.rig.fleet import compute_node_row, service_row

CONTEXT = "_context_"
SAMPLE_CONTEXT = {"user_id": "u", "project_id": "p", "auth_token": SECRET, "request_id": "req-1"}
HINTS = "query group same_host different_host build_near_host_ip cidr reservation _nova_check_type".split()
EXTRA_SPECS = (
    "hw:cpu_policy hw:cpu_thread_policy hw:numa_nodes hw:numa_cpus.0 hw:numa_mem.0 hw:mem_page_size "
    "hw:cpu_realtime hw:cpu_realtime_mask hw:cpu_dedicated_mask hw:emulator_threads_policy hw:mem_encryption "
    "hw:pci_numa_affinity_policy hw:pmem hw:maxphysaddr_mode hw:maxphysaddr_bits hw:cpu_max_threads "
    "hw:tpm_version hw:tpm_model hw:cpu_sockets hw:locked_memory hw:sound_model hw:vif_multiqueue_enabled "
    "resources:VCPU resources1:CUSTOM_X resources_A:VGPU trait:HW_CPU_X86_AVX trait1:CUSTOM_T group_policy "
    "same_subtree in_tree1 accel:device_profile pci_passthrough:alias capabilities:free_ram_mb "
    "capabilities:cpu_info:vendor capabilities:stats:x aggregate_instance_extra_specs:disk "
    "trait:COMPUTE_STATUS_DISABLED"
).split()
PROPERTIES = sorted(objects.ImageMetaProps.fields)


@dataclass(frozen=True)
class Target:
    """One way into the scheduler.

    Attributes:
        words: Names that mean something in its input.
        seeds: Inputs to start from, besides the kept ones, by their names.
        run: Feeds an input.
    """

    words: Sequence[str]
    seeds: Mapping[str, Json]
    run: Callable[[Worker, Json], Outcome]


def captured_messages(*prefixes: str) -> dict[str, Json]:
    """Return the captured calls or casts whose names begin so."""
    return {
        name: {key: value for key, value in message.items() if not key.startswith("_")}
        | {"context": {k.removeprefix(CONTEXT): v for k, v in message.items() if k.startswith(CONTEXT)}}
        | {"namespace": message.get("namespace")}
        for prefix in prefixes
        for name, message in corpus.captured(prefix).items()
    }


def run_messages(worker: Worker, value: Json) -> Outcome:
    """Handle a whole message from the bus."""
    message = {key: item for key, item in value.items() if key != "context"}
    context = value.get("context")
    return Outcome(worker.call(message, context if isinstance(context, dict) else {}))


def hints_seeds() -> dict[str, Json]:
    """Return one input with a value for each name."""
    return {
        "every-name": {
            "hints": {name: ["1"] for name in HINTS},
            "extra_specs": dict.fromkeys(EXTRA_SPECS, "1"),
            "properties": dict.fromkeys(PROPERTIES, "1"),
        },
        "none": {"hints": {}, "extra_specs": {}, "properties": {}},
    } | {
        f"extra-spec-{number}": {"hints": {}, "extra_specs": {name: "1"}, "properties": {}}
        for number, name in enumerate(EXTRA_SPECS)
    }


def run_hints(worker: Worker, value: Json) -> Outcome:
    """Ask for hosts with hints, extra specs and image properties, in a request that is otherwise usual."""
    message = _ordinary_request()
    spec = message["args"]["spec_obj"]["nova_object.data"]
    spec["scheduler_hints"] = value.get("hints")
    spec["flavor"]["nova_object.data"]["extra_specs"] = value.get("extra_specs")
    spec["image"]["nova_object.data"]["properties"]["nova_object.data"] = value.get("properties")
    return Outcome(worker.call(message, SAMPLE_CONTEXT))


def placement_seeds() -> dict[str, Json]:
    """Return usual responses, and the errors that Placement is known to give."""
    usual = {"candidates": {"status": 200, "body": None}}
    held = {"resources": {"VCPU": 1}}
    conflict = {"errors": [{"status": 409, "detail": "conflict", "code": "placement.concurrent_update"}]}
    return {
        "usual": usual,
        "held": usual
        | {
            "allocations": {
                "status": 200,
                "body": {
                    "allocations": {"00000000-0000-0000-0000-000000000000": held},
                    "consumer_generation": 1,
                    "project_id": "p",
                    "user_id": "u",
                },
            }
        },
        "conflict": usual | {"write": {"status": 409, "body": conflict}},
        "error": {"candidates": {"status": 503, "body": "<html>\nSorry</html>"}},
    }


def run_placement(worker: Worker, value: Json) -> Outcome:
    """Ask for hosts while Placement answers like this."""
    worker.placement.script = {
        kind: ScriptedResponse(_status(scripted.get("status")), _body(worker, kind, scripted.get("body")))
        for kind, scripted in value.items()
        if isinstance(scripted, dict)
    }
    try:
        return Outcome(worker.call(_ordinary_request(), SAMPLE_CONTEXT))
    finally:
        worker.placement.script = {}


def database_seeds() -> dict[str, Json]:
    """Return the rows of a usual host, its JSON texts spelled out."""
    world_host = _any_host()
    node = {
        key: _parsed(value) for key, value in compute_node_row(world_host).items() if key not in _KEPT_COLUMNS
    }
    node["updated_at"] = "2026-01-01 00:00:00.000000"
    node["metrics"] = [{"name": "cpu.percent", "value": 0.5, "timestamp": "now", "source": "x"}]
    node["pci_stats"] = _pools()
    service = {
        "disabled": 0,
        "forced_down": 0,
        "version": 74,
        "last_seen_up": "2026-01-01 00:00:00.000000",
    }
    aggregate = {"name": "ssd", "metadata": {"disk": "ssd", "availability_zone": "az1"}}
    return {"usual": {"compute_nodes": node, "services": service, "aggregate": aggregate}}


def run_database(worker: Worker, value: Json) -> Outcome:
    """Write the rows, read the hosts again, and ask for hosts."""
    victim, engines = _victim(worker)
    _write_row(engines["cell"], schema.compute_nodes, victim.name, value.get("compute_nodes"), victim)
    _write_row(engines["cell"], schema.services, victim.name, value.get("services"), victim)
    _write_metadata(engines["api"], value.get("aggregate"))
    table = worker.manager.hosts.snapshot(0)
    outcome = Outcome(worker.call(_ordinary_request(), SAMPLE_CONTEXT))
    others = {host.uuid for host in worker.fleet.hosts} - {victim.uuid}
    missing = others - {row.uuid for row in table.rows}
    if missing:
        outcome.broken.append("rows of one host made other hosts disappear")
    return outcome


def stream_seeds() -> dict[str, Json]:
    """Return a message of each kind of record."""
    entry = {
        "instance": "00000000-0000-0000-0000-000000000001",
        "node": _any_host().uuid,
        "columns": {"free_ram_mb": -512, "vcpus_used": 1, "num_instances": 1},
        "resources": {"VCPU": 1, "MEMORY_MB": 512},
        "updated": "2026-01-01T00:00:00",
    }
    about = {"host": "c1", "rate": 1.5, "partition": "", "topic": ""}
    common = {"version": 1, "sender": "other", "counter": 1, "time": 1.8e9}
    decisions = ("intent", "claimed", "refused", "released", "gone")
    return {
        **{kind: [common | {"kind": kind, "entries": [entry]}] for kind in decisions},
        **{kind: [common | {"kind": kind, "about": about}] for kind in ("hello", "beat", "mark", "bye")},
    }


def run_stream(worker: Worker, value: Json) -> Outcome:
    """Receive the message, and ask for hosts."""
    worker.stream.receive(jsonutils.dump_as_bytes(value))
    outcome = Outcome(worker.call(_ordinary_request(), SAMPLE_CONTEXT))
    if outcome.answer is not None and outcome.answer.error:
        outcome.broken.append("a message of the decision stream made a request fail")
    return outcome


#: Columns by which rows are found; they stay.
_KEPT_COLUMNS = frozenset("id uuid host hypervisor_hostname deleted mapped".split())


def field_names() -> list[str]:
    """Return the names of all fields of all wire objects."""
    return sorted({name for cls in objects.base.REGISTRY.values() for name in cls.fields})


@functools.cache
def _request_text() -> Json:
    message = corpus.captured("boot_two_instances")["boot_two_instances"]
    return {key: message[key] for key in ("method", "args", "version")}


def _ordinary_request() -> dict[str, Any]:
    return copied(_request_text())


def _status(value: Json) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 100 <= value < 600 else 200


def _body(worker: Worker, kind: str, value: Json) -> Json:
    return worker.placement.candidates if value is None and kind == "candidates" else value


def _any_host() -> Any:
    from tools.rig.fleet import Cell, Host

    return Host(0, Cell("cell1", "sqlite://"), "az1")


def _parsed(value: Json) -> Json:
    if isinstance(value, str) and value[:1] in "[{":
        return jsonutils.loads(value)
    return value if isinstance(value, str | int | float | None) else str(value)


def _pools() -> Json:
    pool = {
        "vendor_id": "8086",
        "product_id": "154d",
        "numa_node": 0,
        "count": 2,
        "tags": {"physical_network": "n"},
    }
    return envelope("PciDevicePoolList", {"objects": [envelope("PciDevicePool", pool, "1.1")]}, "1.1")


def _victim(worker: Worker) -> tuple[Any, dict[str, sa.Engine]]:
    if not hasattr(worker, "database_engines"):
        victim = worker.fleet.hosts[0]
        worker.database_engines = {
            "cell": worker.engine(victim.cell.database_url),
            "api": worker.engine(worker.database("api")),
        }
    return worker.fleet.hosts[0], worker.database_engines


def _write_row(engine: sa.Engine, table: sa.Table, host: str, values: Json, victim: Any) -> None:
    """Replace the row of a host with usual values, and with ``values`` where they name columns."""
    usual = compute_node_row(victim) if table is schema.compute_nodes else service_row(victim)
    changed = values if isinstance(values, dict) else {}
    row = {key: _bound(value) for key, value in {**usual, **changed}.items() if key not in _KEPT_COLUMNS}
    row = {key: value for key, value in row.items() if key in table.columns and _fits(table.c[key], value)}
    names = ", ".join(f"{name} = ?" for name in row)
    with engine.begin() as connection:
        connection.exec_driver_sql(
            f"UPDATE OR IGNORE {table.name} SET {names} WHERE host = ?",
            (*row.values(), host),
        )


def _fits(column: sa.Column, value: Any) -> bool:
    """Whether a column of times has one: other than SQLite, the databases of nova take nothing else."""
    try:
        return (
            not isinstance(column.type, sa.DateTime) or value is None or bool(datetime.fromisoformat(value))
        )
    except (TypeError, ValueError):
        return False


def _write_metadata(engine: sa.Engine, values: Json) -> None:
    metadata = values.get("metadata") if isinstance(values, dict) else None
    items = metadata.items() if isinstance(metadata, dict) else ()
    with engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM aggregate_metadata WHERE aggregate_id = 4")
        for key, value in items:
            connection.exec_driver_sql(
                "INSERT OR IGNORE INTO aggregate_metadata (aggregate_id, key, value) VALUES (4, ?, ?)",
                (_bound(key), str(_bound(value))),
            )


def _bound(value: Json) -> Any:
    """Return a value as SQLite can store it."""
    if isinstance(value, dict | list):
        value = jsonutils.dumps(value)
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and abs(value) >= 2**63:
        return float(value) if abs(value) < 10**300 else str(value % 10**20)
    return value if isinstance(value, int | float | None) else str(value)


MESSAGE_WORDS = (*field_names(), *HINTS, *EXTRA_SPECS, "method", "version", "namespace")
TARGETS: Mapping[str, Target] = {
    "messages": Target(
        MESSAGE_WORDS, captured_messages("boot", "migrate", "rebuild", "resize"), run_messages
    ),
    "casts": Target(MESSAGE_WORDS, captured_messages("fanout"), run_messages),
    "hints": Target((*HINTS, *EXTRA_SPECS, *PROPERTIES), hints_seeds(), run_hints),
    "placement": Target(
        (
            "allocation_requests allocations mappings provider_summaries resources traits capacity used "
            "root_provider_uuid parent_provider_uuid errors code detail consumer_generation "
            "placement.concurrent_update VCPU MEMORY_MB"
        ).split(),
        placement_seeds(),
        run_placement,
    ),
    "database": Target(
        (
            *(str(column.name) for column in schema.compute_nodes.columns),
            *(str(column.name) for column in schema.services.columns),
            *"nova_object.name nova_object.data nova_object.version cells cpuset pcpuset mempages".split(),
            *"vendor_id product_id count numa_node tags num_instances io_workload failed_builds".split(),
        ),
        database_seeds(),
        run_database,
    ),
    "stream": Target(
        (
            "version kind sender counter time entries about instance node columns resources updated host rate "
            "partition topic intent claimed refused released gone hello beat mark bye free_ram_mb free_disk_mb "
            "vcpus_used num_instances num_io_ops VCPU MEMORY_MB DISK_GB"
        ).split(),
        stream_seeds(),
        run_stream,
    ),
}
