"""The programs of operators, and their commands.

All of them end with 255 if there is no answer; what other statuses mean, the command says.
"""

from collections.abc import Mapping
from functools import partial
import sys
from typing import NamedTuple

from scheduler.operators import app


class Program(NamedTuple):
    """A program.

    Attributes:
        commands: The words of each command -> the module in ``scheduler.operators`` and the class.
    """

    description: str
    commands: Mapping[str, str]


PROGRAMS = {
    "berth-explain": Program(
        "Explain the decisions of the schedulers.",
        {
            "decision": "explain.decision_commands:DecisionCommand",
            "host": "explain.host:HostCommand",
            "list": "explain.decision_commands:ListCommand",
            "report": "report.command:ReportCommand",
            "why": "explain.ticket:WhyCommand",
            "waiting": "explain.decision_commands:WaitingCommand",
        },
    ),
    "berth-plan": Program(
        "Plan with the scheduler's own rules on a snapshot of the cloud. Nothing is changed without --run.",
        {
            "drain": "plan.drain:DrainCommand",
            "survive": "plan.survive:SurviveCommand",
            "balance": "plan.balance:BalanceCommand",
            "policy": "plan.policy:PolicyCommand",
            "capacity": "plan.capacity:CapacityCommand",
            "dry-run": "plan.dry_run:DryRunCommand",
        },
    ),
    "berth-shadow": Program(
        "Decide copies of nova-scheduler's requests, and compare the decisions.",
        {"run": "shadow.commands:RunCommand", "report": "shadow.commands:ShadowReportCommand"},
    ),
    "berth-status": Program(
        "Check a deployment.",
        {"audit": "audit.command:AuditCommand", "upgrade check": "upgrade_check:UpgradeCheckCommand"},
    ),
}


def run(name: str, argv: list[str] | None = None, **streams) -> int:
    """Run a command of a program and return its exit status."""
    return app.run(name, *PROGRAMS[name], argv, **streams)


explain = partial(run, "berth-explain")
plan = partial(run, "berth-plan")
shadow = partial(run, "berth-shadow")
status = partial(run, "berth-status")

if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
