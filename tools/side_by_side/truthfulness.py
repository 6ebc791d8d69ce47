"""Whether answers are true: exactly the promised allocations; zones, cells, alternates, anti-affinity."""

from collections import Counter
from collections.abc import Iterator, Sequence
import json
from typing import Any

from tools.rig import truth
from tools.rig.load import Answer
from tools.rig.nova_cloud import Rig

ALTERNATES = 2


def problems(rig: Rig, answers: Sequence[Answer]) -> list[str]:
    """Compare the answers to all requests since the last reset with Placement and with the fleet.

    Returns:
        What is wrong, one line for each kind of problem with its number; over-committed inventories one each.
    """
    expected = {
        instance: (chosen[0].compute_node_uuid, answer.request.amounts)
        for answer in answers
        for instance, chosen in zip(answer.request.uuids, answer.selections, strict=False)
    }
    found = truth.check_database(rig.placement_database, expected, rig.filled).problems
    hosts = {host.name: host for host in rig.fleet.hosts}
    counted = Counter(line for answer in answers if answer.selections for line in _of_answer(answer, hosts))
    return [*found, *(f"{number} times: {line}" for line, number in counted.items())]


def _of_answer(answer: Answer, hosts: dict[str, Any]) -> Iterator[str]:
    request = answer.request
    if len(answer.selections) != len(request.uuids):
        yield "the reply has another number of instances"
    chosen = [selections[0].service_host for selections in answer.selections]
    if request.group and len(set(chosen)) != len(chosen):
        yield "two members of an anti-affinity group are on one host"
    for selections in answer.selections:
        yield from _of_instance(selections, request.zone, hosts)


def _of_instance(selections: Sequence[Any], zone: str | None, hosts: dict[str, Any]) -> Iterator[str]:
    names = [selection.service_host for selection in selections]
    if len(names) != ALTERNATES + 1:
        yield f"not {ALTERNATES} alternates"
    if len(set(names)) != len(names):
        yield "a host is twice in a reply"
    for selection in selections:
        host = hosts[selection.service_host]
        if selection.cell_uuid != host.cell.uuid:
            yield "wrong cell"
        if selection.cell_uuid != selections[0].cell_uuid:
            yield "alternate in another cell"
        if zone and host.zone != zone:
            yield "wrong zone"
        if json.loads(selection.allocation_request)["allocations"].keys() != {host.uuid}:
            yield "allocation request for another host"
