"""What health checks and metrics show of a service."""

from dataclasses import dataclass, field

from scheduler.decisions.open_requests import OpenRequest


@dataclass(frozen=True)
class CellState:
    """What is known of a cell.

    Attributes:
        name: The name of the cell, or its uuid if it has none.
        enabled: Whether it takes part in searches that name no cell.
        usable: Whether its hosts are used.
        age: Seconds since its rows were read; None if they never were.
    """

    name: str
    enabled: bool
    usable: bool
    age: float | None


@dataclass(frozen=True)
class ServiceState:
    """What health checks and metrics show of a service.

    Attributes:
        cells: The cells.
        broker: Whether messages are read from the broker; None if that is not known. So for the next two.
        api_database: Whether the API database answered when it was last used.
        placement: Whether Placement answered these credentials when it was last used.
        placement_problem: Why it did not.
        decision_stream: Whether decisions of other schedulers arrive; None if they are not shared.
        stalled: Seconds for which no progress was made although there is work.
        requests: The oldest requests in progress.
        gauges: Name of a metric without labels -> its value.
    """

    cells: tuple[CellState, ...] = ()
    broker: bool | None = None
    api_database: bool | None = None
    placement: bool | None = None
    placement_problem: str = ""
    decision_stream: bool | None = None
    stalled: float = 0.0
    requests: tuple[OpenRequest, ...] = ()
    gauges: dict[str, float] = field(default_factory=dict)
