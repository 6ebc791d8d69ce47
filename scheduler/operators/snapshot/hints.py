"""Notes on the scheduler hints of a dry run."""

from collections.abc import Collection, Iterator
import difflib

from scheduler import objects
from scheduler.request.reading import read

#: The filter that reads a hint.
READERS = {
    "build_near_host_ip": "SimpleCIDRAffinityFilter",
    "cidr": "SimpleCIDRAffinityFilter",
    "different_host": "DifferentHostFilter",
    "query": "JsonFilter",
    "same_host": "SameHostFilter",
}

#: The hint that names a server group, and the rule without which nova's conductors refuse its policy.
GROUP = "group"
POLICIES = {
    "affinity": "ServerGroupAffinityFilter",
    "anti-affinity": "ServerGroupAntiAffinityFilter",
    "soft-affinity": "ServerGroupSoftAffinityWeigher",
    "soft-anti-affinity": "ServerGroupSoftAntiAffinityWeigher",
}


def hint_notes(spec: objects.RequestSpec, rules: Collection[str]) -> Iterator[str]:
    """Yield which hints of a request have no effect, and which server group nova would refuse.

    Args:
        rules: The names of the filters and weighers in use.
    """
    for name in read(spec, "scheduler_hints", {}):
        reader = READERS.get(name)
        if reader is not None and reader not in rules:
            yield f"Hint {name} has no effect: {reader} is not enabled"
        elif reader is None and name != GROUP:
            near = difflib.get_close_matches(name, [*READERS, GROUP], 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            yield f"Hint {name} has no effect: no filter of nova reads it{meant}"
    policy = read(read(spec, "instance_group"), "policy")
    if policy in POLICIES and POLICIES[policy] not in rules:
        yield f"nova-conductor refuses server groups with policy {policy}: {POLICIES[policy]} is not enabled"
