"""The codes of the causes of failed requests, for metrics, commands and pages."""

from enum import StrEnum


class CauseCode(StrEnum):
    """The causes: constraints of a query first, then what happens after Placement's answer.

    Attributes:
        DISABLED: The services of suitable hosts are disabled.
        RESOURCES: No suitable host has room, or may give so much to one instance.
        TRAIT: A required or forbidden trait.
        AGGREGATE: A required or forbidden aggregate, such as one of a tenant.
        HOST: The forced or requested host is not suitable.
        AVAILABILITY_ZONE: Only hosts of other zones are suitable.
        CELL: Suitable hosts are in other cells.
        PROVIDER: Hosts have no resource provider in Placement, or one without their aggregates.
        COMBINATION: Each host fails more than one constraint.
        CHANGED: The cloud has changed since; now there are suitable hosts.
        NOT_OFFERED: Placement offers no host, and there is none that could be offered.
        REQUEST: The request is wrong: it names something that does not exist, or its error says why.
        UNKNOWN_HOSTS: The offered hosts are in no cell that takes part.
        EXCLUDED: The request itself excludes all hosts.
        COMPUTE_DOWN: Compute services are down.
        SERVER_GROUP: The policy of the server group.
        NUMA: NUMA topology, pinned CPUs or pages.
        PCI: PCI devices.
        CAPABILITIES: Properties of the image or the flavor that hosts lack.
        HINT: A scheduler hint.
        LOAD: Limits of instances, I/O operations or metrics of a host.
        FILTER: Another filter, such as one of the operator.
        CLAIMS: Placement refused the claims.
        UNCLAIMABLE: Suitable hosts are mapped to no cell.
        LATE: The caller had timed out.
    """

    DISABLED = "disabled"
    RESOURCES = "resources"
    TRAIT = "trait"
    AGGREGATE = "aggregate"
    HOST = "host"
    AVAILABILITY_ZONE = "availability_zone"
    CELL = "cell"
    PROVIDER = "provider"
    COMBINATION = "combination"
    CHANGED = "changed"
    NOT_OFFERED = "not_offered"
    REQUEST = "request"
    UNKNOWN_HOSTS = "unknown_hosts"
    EXCLUDED = "excluded"
    COMPUTE_DOWN = "compute_down"
    SERVER_GROUP = "server_group"
    NUMA = "numa"
    PCI = "pci"
    CAPABILITIES = "capabilities"
    HINT = "hint"
    LOAD = "load"
    FILTER = "filter"
    CLAIMS = "claims"
    UNCLAIMABLE = "unclaimable"
    LATE = "late"
