"""What Placement has, against what callers were told.

How a provider is read and what is wrong with its numbers is the audit's (``scheduler.operators.audit``),
which compares Placement with nova's databases. Here it is compared with replies, down to the amounts.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import json
import time
from typing import Any, Self

from keystoneauth1 import token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.session import Session
import sqlalchemy as sa

from scheduler.operators.audit.compare import inventories
from scheduler.operators.audit.readers import PlacementReader
from scheduler.operators.audit.values import Amounts, AuditedState, Kind
from scheduler.placement.client import PlacementClient
from scheduler.placement.providers import ListedProvider
from scheduler.placement.session import Timeouts
from tools.rig.fleet import Fleet
from tools.rig.load import Call
from tools.rig.providers import Provider

#: Instance UUID -> provider UUID and amounts.
Expected = Mapping[str, tuple[str, Amounts]]
ALTERNATES = 2
#: Requests to Placement at once, and their seconds.
AT_ONCE = 4
TIMEOUTS = Timeouts(connect=5.0, read=30.0, search=60.0)

_ALLOCATIONS = sa.text(
    "SELECT p.uuid, p.name, a.consumer_id, c.name, a.used FROM allocations a"
    " JOIN resource_providers p ON p.id = a.resource_provider_id"
    " JOIN resource_classes c ON c.id = a.resource_class_id"
)
_INVENTORIES = sa.text(
    "SELECT p.uuid, c.name, i.total, i.reserved, i.allocation_ratio FROM inventories i"
    " JOIN resource_providers p ON p.id = i.resource_provider_id"
    " JOIN resource_classes c ON c.id = i.resource_class_id"
)


@dataclasses.dataclass
class Truth:
    """The result of a comparison: counts, and one line for each problem.

    Attributes:
        wrong: Number of consumers that do not hold what they should, and of over-committed providers.
        left_over: Number of consumers that should hold nothing.
    """

    consumers: int = 0
    resources: int = 0
    wrong: int = 0
    left_over: int = 0
    problems: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def of(cls, states: Iterable[AuditedState], expected: Expected, unknown: Collection[str] = ()) -> Self:
        """Compare what providers have with what is expected of all consumers."""
        truth, held = cls(), {}
        for state in states:
            truth.resources += len(state.capacity)
            found = inventories(state, state.provider.name)
            truth.problems += [each.detail for each in found]
            truth.wrong += any(each.kind is Kind.OVER_COMMITTED for each in found)
            for consumer, amounts in state.allocations.items():
                held.setdefault(consumer, {})[state.provider.uuid] = amounts
        truth.consumers = len(held)
        truth._compare(held, expected, unknown)
        return truth

    def _compare(
        self, held: Mapping[str, Mapping[str, Amounts]], expected: Expected, unknown: Collection[str]
    ) -> None:
        for instance, (provider, amounts) in expected.items():
            found = held.get(instance, {})
            if found != {provider: dict(amounts)}:
                self.wrong += 1
                self.problems.append(
                    f"Instance {instance} should hold {dict(amounts)} on {provider}, but holds {found}"
                )
        for consumer in (held.keys() - expected.keys()).difference(unknown):
            self.left_over += 1
            self.problems.append(f"Left over: {consumer} holds {held[consumer]}")


def check(
    url: str, providers: Iterable[Provider], expected: Expected, unknown: Collection[str] = ()
) -> Truth:
    """Compare all allocations on the providers with what is expected, over HTTP.

    A problem is an over-committed inventory, an instance without its allocation or with a wrong one, or an
    allocation that belongs to no instance. The ``unknown`` consumers may hold anything or nothing.

    Raises:
        PlacementError: Placement does not answer.
    """
    session = Session(auth=token_endpoint.Token(url, "admin"))
    adapter = Adapter(session, service_type="placement", raise_exc=False)
    with contextlib.closing(PlacementReader(PlacementClient(adapter, TIMEOUTS), AT_ONCE)) as reader:
        states = reader.states(ListedProvider(each.uuid, 0, each.uuid, each.name) for each in providers)
    return Truth.of((state for state in states if state), expected, unknown)


def check_database(engine: sa.Engine, expected: Expected, unknown: Collection[str] = ()) -> Truth:
    """Compare as ``check`` does, in Placement's database: fast for large fleets, and one consistent view."""
    held: dict[ListedProvider, dict[str, dict[str, int]]] = {}
    used: dict[str, Counter[str]] = {}
    # In one statement of the allocations is one view; inventories do not change.
    with engine.connect() as connection:
        for uuid, name, consumer, resource_class, amount in connection.execute(_ALLOCATIONS):
            held.setdefault(ListedProvider(uuid, 0, uuid, name), {}).setdefault(consumer, {})[
                resource_class
            ] = amount
            used.setdefault(uuid, Counter())[resource_class] += amount
        capacity: dict[str, dict[str, int]] = {}
        for uuid, name, total, reserved, ratio in connection.execute(_INVENTORIES):
            capacity.setdefault(uuid, {})[name] = int((total - reserved) * ratio)
    states = (
        AuditedState(each, capacity.get(each.uuid, {}), used[each.uuid], allocations)
        for each, allocations in held.items()
    )
    return Truth.of(states, expected, unknown)


def settled(look: Callable[[], Truth], seconds: float) -> Truth:
    """Compare again until there is no problem or the time is over: what was claimed in vain is released."""
    deadline = time.monotonic() + seconds
    while True:
        found = look()
        if not found.problems or time.monotonic() > deadline:
            return found
        time.sleep(1)


def promised(calls: Iterable[Call], fleet: Fleet) -> dict[str, tuple[str, Amounts]]:
    """Return what each instance must hold whose caller was told a host: on that host, as its flavor says."""
    providers = {host.name: host.uuid for host in fleet.hosts}
    return {
        instance: (providers[selections[0].service_host], call.request.amounts)
        for call in calls
        for instance, selections in zip(call.request.uuids, call.selections, strict=False)
    }


def untrue_replies(calls: Iterable[Call], fleet: Fleet) -> list[str]:
    """Return what is wrong with replies as such: zones, cells, alternates, anti-affinity; a line a kind."""
    hosts = {host.name: host for host in fleet.hosts}
    counted = Counter(line for call in calls if call.selections for line in _of_reply(call, hosts))
    return [f"{number} times: {line}" for line, number in counted.items()]


def _of_reply(call: Call, hosts: Mapping[str, Any]) -> Iterator[str]:
    request = call.request
    if len(call.selections) != len(request.uuids):
        yield "the reply has another number of instances"
    chosen = [selections[0].service_host for selections in call.selections]
    if request.group and len(set(chosen)) != len(chosen):
        yield "two members of an anti-affinity group are on one host"
    for selections in call.selections:
        yield from _of_instance(selections, request.zone, hosts)


def _of_instance(selections: Sequence[Any], zone: str | None, hosts: Mapping[str, Any]) -> Iterator[str]:
    names = [selection.service_host for selection in selections]
    if len(names) != ALTERNATES + 1:
        yield f"not {ALTERNATES} alternates"
    if len(set(names)) != len(names):
        yield "a host is twice in a reply"
    for selection in selections:
        host = hosts[selection.service_host]
        if selection.compute_node_uuid != host.uuid:
            yield "wrong compute node"
        if selection.cell_uuid != host.cell.uuid:
            yield "wrong cell"
        if selection.cell_uuid != selections[0].cell_uuid:
            yield "alternate in another cell"
        if zone and host.zone != zone:
            yield "wrong zone"
        if json.loads(selection.allocation_request)["allocations"].keys() != {host.uuid}:
            yield "allocation request for another host"
