"""The exceptions that Berth raises on purpose, as one tree. Some packages add branches of their own.

::

    BerthError
    ├── NoValidHost              an expected refusal: the caller gets nova.exception.NoValidHost
    │   └── RequestFilterFailed  a pre-filter refused the request
    ├── DependencyUnavailable    it is not known whether a host can take the request: the outage is waited out
    │   ├── PlacementUnavailable  Placement or Keystone is unavailable, or refuses this scheduler
    │   ├── HostsUnknown         hosts that the request needs are in cells that cannot be read
    │   │   └── PartitionUnreachable  partitions that may have a host do not answer
    │   └── RouterBusy           a router has as many requests under way as it may have
    ├── InvalidRequest           the message is malformed or contradictory
    │   ├── InvalidSetting       a flavor or image requests a value that does not exist
    │   ├── RequestGroupSuffixConflict
    │   └── FlavorImageConflict  flavor and image contradict each other
    │       ├── ImageCPUPinningForbidden
    │       ├── ImageCPUThreadPolicyForbidden
    │       ├── InvalidCPUAllocationPolicy
    │       └── InvalidMachineType
    ├── NetworkError             Neutron did not provide what a request needs
    │   ├── PortNotFound
    │   ├── NetworkForbidden
    │   └── NetworkUnauthorized
    ├── ComputeHostMetricNotFound  a host lacks a metric that [metrics] requires
    ├── HostFilterNotFound       enabled_filters names a class that is not available
    ├── ClassNotFound            a class path does not lead to a filter or weigher
    ├── CallerLeft               nobody waits for the instances of the request any more
    ├── AllocationUpdateFailed   the consumer changed in Placement during a claim
    ├── ReturnedToBroker         this process stops, or cannot decide while another scheduler can
    └── ConfigError              the value of an option cannot be used; the daemon does not start

An exception that callers get under the name of one of nova's classes has this name in ``nova_name``.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

from scheduler.logs import mask_credentials


class BerthError(Exception):
    """The root of the tree.

    Passwords in URLs are masked: the texts quote errors of libraries, and are answered, recorded and printed.

    Attributes:
        nova_name: The class of ``nova.exception`` that a caller gets, or None.
    """

    nova_name: str | None = None

    def __init__(self, *args: object) -> None:
        super().__init__(*(mask_credentials(each) if isinstance(each, str) else each for each in args))


@contextmanager
def faults_of_request() -> Iterator[None]:
    """Mark what is raised inside as caused by a request of a user: it costs one line of the log."""
    try:
        yield
    except Exception as error:
        vars(error)["fault_of_request"] = True
        raise


def is_fault_of_request(error: BaseException) -> bool:
    """Return whether an error was marked by ``faults_of_request``."""
    return "fault_of_request" in vars(error)


class NoValidHost(BerthError):
    """No host can take the request.

    Attributes:
        reason: One of a few texts (spec: placement-and-workflow 5.7).
        final: Whether this holds for all hosts of the cloud, also for those of other partitions.
    """

    nova_name = "NoValidHost"

    def __init__(self, reason: str = "", *, final: bool = False) -> None:
        self.reason = reason
        self.final = final
        super().__init__(f"No valid host was found. {reason}")

    def add_detail(self, text: str) -> None:
        """Append to the reason what left no host, for callers that may know of hosts."""
        self.reason = f"{self.reason} {text}".strip()
        self.args = (f"No valid host was found. {self.reason}",)


class RequestFilterFailed(NoValidHost):
    """A pre-filter refused the request; the user sees ``Scheduling failed: <reason>``."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"Scheduling failed: {reason}", final=True)


class DependencyUnavailable(BerthError):
    """A dependency is unavailable, so it is not known whether a host can take the request.

    It is not a ``NoValidHost``: the same request may succeed once the dependency has recovered.

    Attributes:
        dependency: Its name for log lines; "" if waiting for it is of no use.
        reason: Why it is unavailable, for log lines: it may have addresses, and callers show the text of an
            error to users.
        timed_out: Whether a request to it timed out: it may be slow, and answer others.
    """

    dependency = ""
    timed_out = False

    def __init__(self, text: str, reason: str = "") -> None:
        self.reason = reason or text
        super().__init__(text)

    def again(self) -> "DependencyUnavailable":
        """Return the same error, to be raised for another request: an error keeps what it was raised in."""
        same = DependencyUnavailable.__new__(type(self), *self.args)
        same.__dict__.update(self.__dict__)
        return same


class PlacementUnavailable(DependencyUnavailable):
    """Placement gives no usable answer. Nothing stays claimed."""

    nova_name = "PlacementAPIConnectFailure"
    dependency = "Placement"

    def __init__(self, reason: str, *, timed_out: bool = False) -> None:
        super().__init__("Placement is unavailable, so it is not known which hosts have room.", reason)
        self.timed_out = timed_out


class InvalidRequest(BerthError):
    """The request is malformed; the text names the argument or field."""

    nova_name = "Invalid"


class InvalidSetting(InvalidRequest):
    """A flavor or image requests a value that does not exist; the text names key and value."""


class RequestGroupSuffixConflict(InvalidRequest):
    """Two request groups have the same suffix."""

    nova_name = "RequestGroupSuffixConflict"

    def __init__(self, suffix: str) -> None:
        self.suffix = suffix
        super().__init__(f"Duplicate request group suffix '{suffix}'.")


class FlavorImageConflict(InvalidRequest):
    """Flavor and image contradict each other."""

    nova_name = "FlavorImageConflict"


class ImageCPUPinningForbidden(FlavorImageConflict):
    """The image requests a CPU policy that the flavor forbids."""

    nova_name = "ImageCPUPinningForbidden"


class ImageCPUThreadPolicyForbidden(FlavorImageConflict):
    """The image requests a CPU thread policy that the flavor forbids."""

    nova_name = "ImageCPUThreadPolicyForbidden"


class InvalidCPUAllocationPolicy(FlavorImageConflict):
    """The CPU policy is unknown to nova."""

    nova_name = "InvalidCPUAllocationPolicy"


class InvalidMachineType(FlavorImageConflict):
    """The machine type of the image does not support a requested feature."""

    nova_name = "InvalidMachineType"


class NetworkError(BerthError):
    """Neutron failed or could not be reached; the text names the query of the pre-filter."""

    nova_name = "NovaException"


class PortNotFound(NetworkError):
    """A requested port does not exist, or is not visible to this user."""

    nova_name = "PortNotFound"

    def __init__(self, port_id: str) -> None:
        self.port_id = port_id
        super().__init__(f"Port id {port_id} could not be found.")


class NetworkForbidden(NetworkError):
    """Neutron refuses access with the token of the user."""

    nova_name = "Forbidden"


class NetworkUnauthorized(NetworkError):
    """Neutron does not accept the token of the user, or there is none."""

    nova_name = "Unauthorized"


class HostsUnknown(DependencyUnavailable):
    """Cells that cannot be read may have the hosts of a request: whether one can take it is not known."""

    nova_name = "CellTimeout"

    def __init__(self, cells: Iterable[object]) -> None:
        """Name the cells."""
        names = ", ".join(str(cell) for cell in cells)
        self.dependency = f"The database of {names}"
        super().__init__(
            f"The hosts of these cells are not known, since their databases do not answer: {names}"
        )


class PartitionUnreachable(HostsUnknown):
    """Partitions may have a host, and none of their schedulers answers."""

    def __init__(self) -> None:
        DependencyUnavailable.__init__(self, "Partitions that may have a host do not answer")


class RouterBusy(DependencyUnavailable):
    """A router has as many calls under way as it may have."""

    nova_name = "CellTimeout"

    def __init__(self, most: int) -> None:
        super().__init__(f"The router has {most} requests in progress and rejects further ones")


class ComputeHostMetricNotFound(BerthError):
    """``[metrics] required`` is set, and a host does not report a metric that is weighed."""

    nova_name = "ComputeHostMetricNotFound"

    def __init__(self, name: str, host: str, node: str) -> None:
        super().__init__(f"Metric {name} could not be found on the compute host node {host}.{node}.")


class HostFilterNotFound(BerthError):
    """``enabled_filters`` names classes that ``available_filters`` does not offer."""

    nova_name = "SchedulerHostFilterNotFound"

    def __init__(self, names: list[str], available: Iterable[str] = (), why: str = "") -> None:
        text = f"Scheduler Host Filter {', '.join(names)} could not be found. {why}".rstrip()
        meant = {name: nearest_class(name.rpartition(".")[2], available) for name in names}
        hints = [f"{close} for {name}" if len(names) > 1 else close for name, close in meant.items() if close]
        super().__init__(f"{text} Did you mean {', '.join(hints)}?" if hints else text)


class ClassNotFound(BerthError):
    """A dotted path of ``available_filters`` or ``weight_classes`` names no usable class."""

    nova_name = "ClassNotFound"


class AllocationUpdateFailed(BerthError):
    """The allocations of the instance were changed in Placement by another client during a claim.

    Attributes:
        consumer_uuid: The instance.
        held: The resource providers on which it holds allocations of an earlier request that has ended,
            and may have been answered; none if something else is the reason.
    """

    nova_name = "AllocationUpdateFailed"

    def __init__(self, consumer_uuid: str, error: str, *, held: Iterable[str] = ()) -> None:
        self.consumer_uuid = consumer_uuid
        self.held = frozenset(held)
        super().__init__(f"Failed to update allocations for consumer {consumer_uuid}. Error: {error}")


class AgainstGroupPolicy(BerthError):
    """Another process has placed members of the server group where its policy forbids what was claimed.

    The request is begun again.

    Attributes:
        consumer_uuid: The instance.
        hosts: The service hosts of members that an instance of an affinity group has to join.
    """

    def __init__(self, consumer_uuid: str, cause: str, hosts: Iterable[str] = ()) -> None:
        self.consumer_uuid = consumer_uuid
        self.hosts = tuple(hosts)
        super().__init__(cause)


class CallerLeft(BerthError):
    """Nobody waits for the instances of the request any more. What they held for nobody is released."""

    nova_name = "NoValidHost"


class ReturnedToBroker(BerthError):
    """The call is not answered here but returned to the broker. Nothing stays claimed for it.

    This process stops and claims nothing any more, or it cannot decide while another scheduler can.
    """


class ConfigError(BerthError):
    """Options have values that cannot be used; the text names group and option.

    Attributes:
        findings: One text for each of them.
    """

    def __init__(self, *findings: str) -> None:
        self.findings = tuple(map(mask_credentials, findings))
        super().__init__("; ".join(findings))


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return what was probably meant by a name that does not exist; "" if nothing known is close to it."""
    close = get_close_matches(name, known, n=1, cutoff=cutoff)
    return close[0] if close else ""


def nearest_class(name: str, known: Iterable[str]) -> str:
    """Return the class that was probably meant; "" if none is close.

    Names of operators' own classes resemble those of nova, so it has to be very close.
    """
    by_lower_case = {each.lower(): each for each in known}
    return by_lower_case.get(nearest(name.lower(), by_lower_case, 0.85), "")


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the end of a sentence on a name that does not exist; "" if nothing known is close to it."""
    close = nearest(name, known, cutoff)
    return f"; did you mean {close}?" if close else ""
