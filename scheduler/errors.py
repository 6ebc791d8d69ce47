"""What Berth raises on purpose, as one tree. Some rooms have branches of their own besides.

::

    BerthError
    ├── NoValidHost              an expected "no": the caller gets nova.exception.NoValidHost
    │   └── RequestFilterFailed  a pre-filter refused the request
    ├── InvalidRequest           the message cannot be served as it stands
    │   ├── InvalidSetting       a flavor or image asks for a value that does not exist
    │   ├── RequestGroupSuffixConflict
    │   └── FlavorImageConflict  flavor and image contradict each other
    │       ├── ImageCPUPinningForbidden
    │       ├── ImageCPUThreadPolicyForbidden
    │       ├── InvalidCPUAllocationPolicy
    │       └── InvalidMachineType
    ├── NetworkError             Neutron did not say what a request needs to know
    │   ├── PortNotFound
    │   ├── NetworkForbidden
    │   └── NetworkUnauthorized
    ├── ComputeHostMetricNotFound  a host lacks a metric that [metrics] requires
    ├── HostFilterNotFound       enabled_filters names a class that is not available
    ├── ClassNotFound            a class path does not lead to a filter or weigher
    ├── AllocationUpdateFailed   Placement's consumer changed under a claim
    └── ConfigError              an option's value is refused; the daemon does not start

An error that reaches a caller under one of nova's own class names says which in ``nova_name``.
"""


class BerthError(Exception):
    """Root of the tree. ``nova_name`` is the class of ``nova.exception`` that a caller sees, if any."""

    nova_name: str | None = None


class NoValidHost(BerthError):
    """No host can take the request; ``reason`` is one of a few texts (spec: placement-and-workflow 5.7)."""

    nova_name = "NoValidHost"

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(f"No valid host was found. {reason}")


class RequestFilterFailed(NoValidHost):
    """A pre-filter refused the request; the user sees ``Scheduling failed: <reason>``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Scheduling failed: {reason}")


class InvalidRequest(BerthError):
    """The request is malformed; the text names the argument or field."""


class InvalidSetting(InvalidRequest):
    """A flavor or image asks for a value that does not exist; the text names key and value."""

    nova_name = "Invalid"


class RequestGroupSuffixConflict(InvalidRequest):
    """Two request groups claim the same suffix."""

    nova_name = "RequestGroupSuffixConflict"

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix
        super().__init__(f"Duplicate request group suffix '{suffix}'.")


class FlavorImageConflict(InvalidRequest):
    """Flavor and image ask for contradictory things."""

    nova_name = "FlavorImageConflict"


class ImageCPUPinningForbidden(FlavorImageConflict):
    """The image asks for a CPU policy that the flavor forbids."""

    nova_name = "ImageCPUPinningForbidden"


class ImageCPUThreadPolicyForbidden(FlavorImageConflict):
    """The image asks for a CPU thread policy that the flavor forbids."""

    nova_name = "ImageCPUThreadPolicyForbidden"


class InvalidCPUAllocationPolicy(FlavorImageConflict):
    """The CPU policy is none that nova knows."""

    nova_name = "InvalidCPUAllocationPolicy"


class InvalidMachineType(FlavorImageConflict):
    """The machine type of the image does not go with a feature asked for."""

    nova_name = "InvalidMachineType"


class NetworkError(BerthError):
    """Neutron failed or could not be reached while a pre-filter needed it; the text says what was asked."""

    nova_name = "NovaException"


class PortNotFound(NetworkError):
    """A requested port does not exist, or not for this user."""

    nova_name = "PortNotFound"

    def __init__(self, port_id: str) -> None:
        self.port_id = port_id
        super().__init__(f"Port id {port_id} could not be found.")


class NetworkForbidden(NetworkError):
    """Neutron refuses the user's token what the request needs."""

    nova_name = "Forbidden"


class NetworkUnauthorized(NetworkError):
    """Neutron does not accept the token, or there is none to give it."""

    nova_name = "Unauthorized"


class ComputeHostMetricNotFound(BerthError):
    """``[metrics] required`` is set and a host does not report a metric that is to be weighed."""

    nova_name = "ComputeHostMetricNotFound"

    def __init__(self, name: str, host: str, node: str) -> None:
        super().__init__(f"Metric {name} could not be found on the compute host node {host}.{node}.")


class HostFilterNotFound(BerthError):
    """``enabled_filters`` names classes that ``available_filters`` does not offer."""

    nova_name = "SchedulerHostFilterNotFound"

    def __init__(self, names: list[str]) -> None:
        super().__init__(f"Scheduler Host Filter {', '.join(names)} could not be found.")


class ClassNotFound(BerthError):
    """A dotted path of ``available_filters`` or ``weight_classes`` leads to nothing usable."""

    nova_name = "ClassNotFound"


class AllocationUpdateFailed(BerthError):
    """Placement says that somebody else changed the instance's allocations meanwhile."""

    nova_name = "AllocationUpdateFailed"

    def __init__(self, consumer_uuid: str, error: str) -> None:
        self.consumer_uuid = consumer_uuid
        super().__init__(f"Failed to update allocations for consumer {consumer_uuid}. Error: {error}")


class ConfigError(BerthError):
    """An option has a value that Berth cannot work with; the text names group and option."""
