"""The documents of ``/healthz`` and ``/readyz``, in the form of ``application/health+json``.

The texts are fixed: what another service has said may contain addresses and names, and is in the log only.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum

from scheduler.health.state import CellState, ServiceState

CONTENT_TYPE = "application/health+json"

#: Seconds after which the rows of a cell are called old. They are read every ten seconds at least.
OLD_CELL = 60.0

Document = dict[str, object]
Check = dict[str, object]


class Health(IntEnum):
    """How good a state is; larger is worse."""

    PASS = 0
    WARN = 1
    FAIL = 2

    def __str__(self) -> str:
        return self.name.lower()


@dataclass(frozen=True)
class Readiness:
    """Answers whether the daemon lives, and whether it can answer requests.

    Attributes:
        read: Returns whether it takes requests, and its state.
        host: The name of the service, as nova lists it.
    """

    read: Callable[[], tuple[bool, ServiceState]]
    host: str
    version: str
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def alive(self) -> tuple[Health, Document]:
        """Return that the process lives: one that hangs does not answer, and ends."""
        return Health.PASS, self._document(Health.PASS, {})

    def ready(self) -> tuple[Health, Document]:
        """Return whether requests are answered, and what that depends on."""
        serving, state = self.read()
        found = {
            "daemon:serving": (Health.PASS, "") if serving else (Health.FAIL, "takes no requests"),
            "broker:connection": _connection(state.broker, Health.FAIL),
            "api-database:connection": _connection(state.api_database, Health.WARN),
            "placement:connection": _connection(state.placement, Health.FAIL, state.placement_problem),
        }
        if state.decision_stream is not None:
            found["decision-stream:connection"] = _connection(state.decision_stream, Health.WARN)
        if serving and not any(cell.usable for cell in state.cells if cell.enabled):
            found["cells:usable"] = Health.FAIL, "no enabled cell is known whose hosts can be used"
        checks = {name: self._check(*result) for name, result in found.items()}
        worst = [health for health, _ in found.values()]
        for cell in state.cells if serving else ():
            health, text = _cell(cell)
            worst.append(health)
            checks[f"cell {cell.name}:age"] = self._check(health, text, cell.age)
        return max(worst), self._document(max(worst), checks)

    def _check(self, health: Health, output: str, age: float | None = None) -> Check:
        moment = self.now().isoformat(timespec="seconds")
        check: Check = {"componentId": "daemon", "status": str(health), "time": moment.replace("+00:00", "Z")}
        if age is not None:
            check |= {"observedValue": round(age, 3), "observedUnit": "s"}
        if output:
            check["output"] = output
        return check

    def _document(self, health: Health, checks: dict[str, Check]) -> Document:
        document: Document = {
            "status": str(health),
            "serviceId": self.host,
            "description": "nova-scheduler (Berth)",
            "releaseId": self.version,
        }
        return document | ({"checks": {name: [check] for name, check in checks.items()}} if checks else {})


def _connection(state: bool | None, without: Health, problem: str = "") -> tuple[Health, str]:
    """Return the health of a dependency: ``without`` if it does not answer."""
    if state is None:
        return Health.WARN, "not used yet"
    return (Health.PASS, "") if state else (without, problem or "does not answer; see the log")


def _cell(cell: CellState) -> tuple[Health, str]:
    if cell.usable and cell.age is not None and cell.age <= OLD_CELL:
        return Health.PASS, ""
    hosts = "are used as last known" if cell.usable else "are not used"
    return Health.WARN, f"its database does not answer; its hosts {hosts}"
