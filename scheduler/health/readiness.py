"""The documents of ``/healthz`` and ``/readyz``, in the form of ``application/health+json``.

The texts are fixed: what another service has said may contain addresses and names, and is in the log only.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from enum import IntEnum

from scheduler.health.supervision import WorkerRecord, WorkerTable

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


class Readiness:
    """Answers whether the daemon lives, and whether it can answer requests."""

    def __init__(
        self,
        workers: WorkerTable,
        host: str,
        version: str,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Answer for some workers.

        Args:
            host: The name of the service, as nova lists it.
        """
        self._workers = workers
        self._host = host
        self._version = version
        self._now = now

    def alive(self) -> tuple[Health, Document]:
        """Return whether the master can get its workers to work. If not, a restart is due."""
        health = Health.PASS if self._workers.all_alive() else Health.FAIL
        return health, self._document(health, {})

    def ready(self) -> tuple[Health, Document]:
        """Return whether requests are answered, and what that depends on."""
        reporting = self._workers.current()
        current = [each for each in reporting if each.phase == "serving"]
        found = {
            "workers:serving": self._serving(current),
            "broker:connection": self._connections(reporting, "broker", Health.FAIL),
            "api-database:connection": self._connections(reporting, "api_database", Health.WARN),
            "placement:connection": self._connections(reporting, "placement", Health.FAIL),
            **self._shared_decisions(current),
            **self._cells(current),
        }
        worst = max(health for health, _ in found.values())
        return worst, self._document(worst, {name: checks for name, (_, checks) in found.items()})

    def _serving(self, current: list[WorkerRecord]) -> tuple[Health, list[Check]]:
        total = len(self._workers.records)
        health = Health.PASS if len(current) == total else Health.WARN if current else Health.FAIL
        idle = f"workers that take no requests: {total - len(current)} of {total}"
        text = "" if health is Health.PASS else idle
        return health, [self._check("daemon", health, text, len(current), "workers")]

    def _connections(
        self, current: list[WorkerRecord], name: str, without: Health
    ) -> tuple[Health, list[Check]]:
        """Return the state of a party: ``without`` if it answers no worker."""
        states = [getattr(each.state, name) for each in current]
        checks = [
            self._check(_name(each), *_connection(state, getattr(each.state, f"{name}_problem", "")))
            for each, state in zip(current, states, strict=True)
        ]
        if all(states):
            health = Health.PASS if states else Health.FAIL
        else:
            health = without if all(state is False for state in states) else Health.WARN
        return health, checks

    def _shared_decisions(self, current: list[WorkerRecord]) -> dict[str, tuple[Health, list[Check]]]:
        """Return the state of the decision stream, if there is one. Requests are answered without it."""
        if all(each.state.decision_stream is None for each in current):
            return {}
        return {"decision-stream:connection": self._connections(current, "decision_stream", Health.WARN)}

    def _cells(self, current: list[WorkerRecord]) -> dict[str, tuple[Health, list[Check]]]:
        found: dict[str, tuple[Health, list[Check]]] = {}
        for each in current:
            for cell in each.state.cells:
                age = None if cell.age is None else round(cell.age + self._workers.age(each), 3)
                health = Health.PASS if cell.usable and age is not None and age <= OLD_CELL else Health.WARN
                text = "" if health is Health.PASS else _cell_text(cell.usable)
                worst, checks = found.setdefault(f"cell {cell.name}:age", (Health.PASS, []))
                checks.append(self._check(_name(each), health, text, age, "s"))
                found[f"cell {cell.name}:age"] = max(worst, health), checks
        if current and not any(cell.usable for each in current for cell in each.state.cells if cell.enabled):
            text = "no enabled cell is known whose hosts can be used"
            found["cells:usable"] = Health.FAIL, [self._check("daemon", Health.FAIL, text)]
        return found

    def _check(
        self,
        component: str,
        health: Health,
        output: str = "",
        value: float | None = None,
        unit: str = "",
    ) -> Check:
        check: Check = {"componentId": component, "status": str(health), "time": _text(self._now())}
        if value is not None:
            check |= {"observedValue": value, "observedUnit": unit}
        if output:
            check["output"] = output
        return check

    def _document(self, health: Health, checks: dict[str, list[Check]]) -> Document:
        document: Document = {
            "status": str(health),
            "serviceId": self._host,
            "description": "nova-scheduler (Berth)",
            "releaseId": self._version,
        }
        return document | ({"checks": checks} if checks else {})


def _connection(state: bool | None, problem: str) -> tuple[Health, str]:
    if state is None:
        return Health.WARN, "not used yet"
    return (Health.PASS, "") if state else (Health.FAIL, problem or "does not answer; see the log")


def _cell_text(usable: bool) -> str:
    if usable:
        return "its database does not answer; its hosts are used as last known"
    return "its database does not answer; its hosts are not used"


def _name(record: WorkerRecord) -> str:
    return f"worker {record.number}"


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
