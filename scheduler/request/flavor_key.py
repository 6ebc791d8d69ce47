"""What requests have in common that can share a query of Placement."""

from scheduler.request.reading import read
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.request.targets import named_target


def flavor_key(request: SchedulingRequest) -> str | None:
    """Return a text that is the same for requests whose queries of all hosts ask for the same amounts.

    It is what the amounts of a flavor follow from. Image, ports and aggregates make further queries of one
    flavor; requests that differ in these alone may share lists of providers all the same.

    Returns:
        None if the request asks for no list of hosts: it names its host, or checks one.
    """
    if named_target(request.spec):
        return None
    flavor = request.flavor
    amounts = [flavor.vcpus, flavor.memory_mb, flavor.root_gb, flavor.ephemeral_gb, flavor.swap]
    return repr((amounts, bool(read(request.spec, "is_bfv")), sorted(request.extra_specs.items())))
