"""What Berth asks Placement is what nova asks, for random requests."""

from typing import NamedTuple
from urllib.parse import parse_qsl

from scheduler import objects
from scheduler.errors import BerthError
from scheduler.request import prefilters, query, targets
from scheduler.request.reading import read
from tests.integration.interop import query_cases
from tests.unit.request.builders import FakeNetwork, make_conf, make_services

KIND = "queries"

#: A request of which flavor and image make no sense: nova tells more kinds apart than Berth. An unknown host is
#: found by Berth first, by nova last.
OURS = {"FlavorImageConflict", "InvalidRequest", "InvalidSetting", "InvalidMachineType", "NoValidHost"}
THEIRS = {
    "FlavorImageConflict",
    "ImageCPUPinningForbidden",
    "ImageCPUThreadPolicyForbidden",
    "ImagePCINUMAPolicyForbidden",
    "Invalid",
    "InvalidCPUAllocationPolicy",
    "InvalidCPUThreadAllocationPolicy",
    "InvalidEmulatorThreadsPolicy",
    "InvalidMachineType",
    "InvalidMixedInstanceDedicatedMask",
    "InvalidPCINUMAAffinity",
    "InvalidVideoMode",
    "RealtimeMaskNotFoundOrInvalid",
    "RequestGroupSuffixConflict",
    "StatelessFirmwareRequired",
    "ValueError",
}


class Berth:
    """The steps from a request to its queries, with the cloud of the cases around them."""

    def answer(self, case, wire):
        """As ``query_caller`` answers."""
        spec = objects.RequestSpec.obj_from_primitive(wire)
        try:
            queries = self._queries(case, spec)
        except BerthError as error:
            return {"error": type(error).__name__, "message": str(error)}
        target = read(spec, "requested_destination", {})
        named = [getattr(target, name) for name in ("host", "node") if name in target]
        return {"queries": [each.querystring for each in queries], "named": named}

    def _queries(self, case, spec):
        conf = make_conf(
            *case["switches"], limit=case["max_placement_results"], disable_fallback=case["disable_fallback"]
        )
        if case["prefilters"]:
            prefilters.run(spec, None, self._services(case, conf))
        look_up = targets.named_target(spec)
        return query.build(spec, conf, targets.apply_lookup(spec, look_up, find(look_up) if look_up else ()))

    def _services(self, case, conf):
        return make_services(
            conf,
            aggregates=[Aggregate(uuid, metadata) for uuid, metadata in query_cases.AGGREGATES.items()],
            version=case["version"],
            network=FakeNetwork(query_cases.PORTS, query_cases.NETWORKS, query_cases.SUBNETS),
            provider_aggregates=query_cases.SEGMENTS,
        )


class Aggregate(NamedTuple):
    uuid: str
    metadata: dict


def find(wanted):
    """The compute nodes of a look-up, from the cell that the host is mapped to or the first that has some."""
    cell = wanted.cell_uuid or next(
        (query_cases.CELLS[cell] for host, _, _, cell in query_cases.NODES if host == wanted.host), None
    )
    found = [
        (query_cases.CELLS[in_cell], targets.NamedNode(uuid, host, node))
        for host, node, uuid, in_cell in query_cases.NODES
        if wanted.host in (None, host)
        and wanted.node in (None, node)
        and cell in (None, query_cases.CELLS[in_cell])
    ]
    return [node for in_cell, node in found if in_cell == found[0][0]]


def compare(case, theirs):
    """What differs between nova's answer and ours; None for nothing."""
    ours = Berth().answer(case, theirs["wire"])
    if "error" in ours and "error" in theirs:
        same = ours["error"] == theirs["error"] or (ours["error"] in OURS and theirs["error"] in THEIRS)
    else:
        same = meaning(ours) == meaning(theirs)
    return None if same else (ours, theirs)


def meaning(answer):
    """What counts: neither the order of parameters, nor whether the same question is asked twice."""
    queries = [sorted(parse_qsl(text, keep_blank_values=True)) for text in answer.get("queries", ())]
    once = [each for number, each in enumerate(queries) if each not in queries[:number]]
    return answer.get("error"), once, answer.get("named")


def test_the_queries_are_those_of_nova(answered):
    differences = [(case, found) for case, theirs in answered if (found := compare(case, theirs))]
    assert differences == []
    assert sum("queries" in theirs for _, theirs in answered) > len(answered) / 2
