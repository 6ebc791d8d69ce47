"""The causes of failed requests, and all that commands, pages and documents say of them, in one table."""

from enum import StrEnum
from typing import Self

#: What users read of causes that only the operator can do something about.
OF_OPERATOR = ("the cloud is not set up completely for this request", "Ask the operator.")


class ConstraintKind(StrEnum):
    """What a constraint is about. ``SEVERAL`` stands for several: it is not known which a host fails.

    Attributes:
        cause: The code of the cause if hosts fail it alone.
    """

    cause: str

    def __new__(cls, kind: str, cause: str = "") -> Self:
        one = str.__new__(cls, kind)
        one._value_, one.cause = kind, cause or kind
        return one

    DISABLED = "disabled"
    AMOUNT = "amount", "resources"
    GROUP = "group", "resources"
    TRAIT = "trait"
    AGGREGATE = "aggregate"
    SYNCHRONIZED = "synchronized aggregate", "provider"
    ZONE = "availability zone", "availability_zone"
    HOST = "host"
    IGNORED = "ignored host", "excluded"
    CELL = "cell"
    PROVIDER = "provider"
    MAPPING = "host mapping", "unclaimable"
    FILTER = "filter"
    CLAIM = "claim", "claims"
    SEVERAL = "several", "combination"


class CauseCode(StrEnum):
    """The causes: constraints of a query first, then what happens after Placement's answer.

    Attributes:
        meaning: What the code means.
        remedy: What ends it, if the case at hand has no remedy of its own.
        for_users: What users read, and what they can do; it names no host, rule or aggregate of the operator.
        filters: The filters of nova and Berth with this cause; others have ``FILTER``.
    """

    meaning: str
    remedy: str
    for_users: tuple[str, str]
    filters: tuple[str, ...]

    def __new__(
        cls,
        code: str,
        meaning: str = "",
        remedy: str = "",
        for_users: tuple[str, str] = OF_OPERATOR,
        filters: str = "",
    ) -> Self:
        one = str.__new__(cls, code)
        one._value_ = code
        one.meaning, one.remedy, one.for_users = meaning, remedy, for_users
        one.filters = tuple(filters.split())
        return one

    DISABLED = (
        "disabled",
        "The services of suitable hosts are disabled.",
        "Enable the compute services, or wait until their maintenance ends.",
        ("the suitable servers of the cloud are under maintenance", "Try again later."),
    )
    RESOURCES = (
        "resources",
        "No suitable host has room, or may give so much to one instance.",
        "Add capacity, raise allocation ratios, or use a flavor with smaller amounts.",
        (
            "the cloud has no room for an instance of this size at the moment",
            "Choose a smaller flavor or another availability zone, or try again later.",
        ),
        (
            "RamFilter AggregateRamFilter ExactRamFilter DiskFilter AggregateDiskFilter ExactDiskFilter "
            "CoreFilter AggregateCoreFilter ExactCoreFilter"
        ),
    )
    TRAIT = (
        "trait",
        "A required or forbidden trait.",
        "Correct the trait in the flavor or image, or set it on the hosts that have it.",
        (
            "the cloud has no room where the features are that the flavor or the image requires",
            "Choose another flavor or image.",
        ),
    )
    AGGREGATE = (
        "aggregate",
        "A required or forbidden aggregate, such as one of a tenant.",
        "Add hosts to the aggregate, or correct its metadata, the flavor or the project.",
        (
            "the part of the cloud for this flavor or project has no suitable place",
            "Choose another flavor, or ask the operator.",
        ),
        (
            "AggregateImagePropertiesIsolation AggregateInstanceExtraSpecsFilter "
            "AggregateMultiTenancyIsolation AggregateTypeAffinityFilter IsolatedHostsFilter"
        ),
    )
    HOST = (
        "host",
        "The forced or requested host is not suitable.",
        "Choose another host, or let the scheduler choose.",
        ("the requested server is not suitable", "Do not name a server."),
    )
    AVAILABILITY_ZONE = (
        "availability_zone",
        "Only hosts of other zones are suitable.",
        "Choose another zone, or add hosts to this one.",
        ("the availability zone has no suitable place", "Choose another availability zone, or none."),
        "AvailabilityZoneFilter",
    )
    CELL = (
        "cell",
        "Suitable hosts are in other cells, or in a cell that is disabled.",
        "Enable the cell, or add hosts to the cell of the instance.",
        ("the suitable part of the cloud is out of service, or not for this instance", "Ask the operator."),
    )
    PROVIDER = (
        "provider",
        "Hosts have no resource provider in Placement, or one without their aggregates.",
        "Find out why nova-compute does not report the hosts to Placement.",
    )
    COMBINATION = (
        "combination",
        "Each host fails more than one constraint.",
        "Change the constraints that the hosts with the fewest fail.",
        (
            "no place meets all that the flavor, the image and the request require together",
            "Require less: another flavor or image, fewer hints, another availability zone.",
        ),
    )
    CHANGED = (
        "changed",
        "The cloud has changed since; now there are suitable hosts.",
        "Try again.",
        ("there was no suitable place at that moment", "Try again."),
    )
    NOT_OFFERED = (
        "not_offered",
        "Placement offers no host, and there is none that could be offered.",
        "Add hosts, or find out why none is known.",
    )
    REQUEST = (
        "request",
        "The request is wrong: it names something that does not exist, or its error says why.",
        "Correct what the error names in the request, the flavor, the image or the port.",
        (
            "the request names something that does not exist or does not fit together",
            "Check flavor, image, ports and hints.",
        ),
    )
    UNKNOWN_HOSTS = (
        "unknown_hosts",
        "The offered hosts are in no cell that takes part.",
        (
            "Enable the cell, restart nova-compute on hosts without a service record, or delete resource "
            "providers whose compute nodes are gone."
        ),
    )
    EXCLUDED = (
        "excluded",
        "The request itself excludes all hosts.",
        "Request another host, or ignore fewer hosts.",
        ("the request excludes all places that would be suitable", "Name no server, and exclude fewer."),
    )
    COMPUTE_DOWN = (
        "compute_down",
        "Compute services are down.",
        "Start nova-compute on the hosts, or find out why it does not report.",
        ("the suitable servers of the cloud are out of service at the moment", "Try again later."),
        "ComputeFilter",
    )
    SERVER_GROUP = (
        "server_group",
        "The policy of the server group.",
        "Add hosts, or use a soft policy for the group.",
        (
            "the policy of the server group allows no further place",
            "Use a group with a soft policy, or fewer members.",
        ),
        (
            "ServerGroupAffinityFilter ServerGroupAntiAffinityFilter GroupAffinityFilter "
            "GroupAntiAffinityFilter FailureDomainFilter"
        ),
    )
    NUMA = (
        "numa",
        "NUMA topology, pinned CPUs or pages.",
        "Use a flavor with more NUMA cells or smaller amounts, or free a NUMA cell.",
        (
            "no server has CPUs and memory in the arrangement that the flavor requires",
            "Choose a smaller flavor, or one without such requirements.",
        ),
        "NUMATopologyFilter",
    )
    PCI = (
        "pci",
        "PCI devices.",
        "Free devices, or correct the PCI alias and the devices that hosts offer.",
        (
            "all devices of the kind that the flavor or a port requires are in use",
            "Try again later, or choose a flavor without such devices.",
        ),
        "PciPassthroughFilter",
    )
    CAPABILITIES = (
        "capabilities",
        "Properties of the image or the flavor that hosts lack.",
        "Correct the properties of the image or the extra specs of the flavor.",
        ("no server supports what the image or the flavor requires", "Choose another image or flavor."),
        "ImagePropertiesFilter ComputeCapabilitiesFilter",
    )
    HINT = (
        "hint",
        "A scheduler hint.",
        "Correct the scheduler hint.",
        ("the scheduler hint allows no place", "Correct the hint, or leave it out."),
        "SameHostFilter DifferentHostFilter SimpleCIDRAffinityFilter JsonFilter",
    )
    LOAD = (
        "load",
        "Limits of instances, I/O operations or metrics of a host.",
        "Wait until the hosts are less busy, or raise the limit of the filter.",
        ("the suitable servers are busy", "Try again in some minutes."),
        "IoOpsFilter AggregateIoOpsFilter NumInstancesFilter AggregateNumInstancesFilter MetricsFilter",
    )
    FILTER = (
        "filter",
        "Another filter, such as one of the operator.",
        "See the reason that the filter gives for each host.",
        ("a rule of the cloud allows no place for this request", "Ask the operator."),
    )
    CLAIMS = (
        "claims",
        "Placement refused the claims.",
        "Try again; if hosts have room, find out which other services claim on them.",
        ("other requests took the last suitable places", "Try again."),
    )
    UNCLAIMABLE = (
        "unclaimable",
        "Suitable hosts are mapped to no cell.",
        "Map the hosts to their cell: nova-manage cell_v2 discover_hosts.",
    )
    LATE = (
        "late",
        "The caller had timed out.",
        "Find out why the scheduler, Placement or the databases are slow.",
        ("the cloud was too busy to answer in time", "Try again."),
    )

    @classmethod
    def of_filter(cls, name: str) -> "CauseCode":
        """Return the cause of a filter by its name."""
        return next((one for one in cls if name in one.filters), cls.FILTER)
