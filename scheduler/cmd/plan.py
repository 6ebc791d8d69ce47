"""berth-plan: what would happen if; nothing is changed.

Exit status: 0 every instance finds a place, 3 some do not, 255 no plan could be made.
"""

import sys
from typing import Any

from scheduler.cmd import operator_app


def commands() -> operator_app.Commands:
    from scheduler.cmd import plan_commands, plan_requests

    return {
        "drain": plan_commands.Drain,
        "survive": plan_commands.Survive,
        "balance": plan_commands.Balance,
        "policy": plan_commands.Policy,
        "capacity": plan_requests.Capacity,
        "dry-run": plan_requests.DryRun,
    }


def main(argv: list[str] | None = None, **streams: Any) -> int:
    """Run a command and return its exit status. ``argv`` is the command line without the program's name."""
    return operator_app.run(
        "berth-plan",
        "Plan with the scheduler's own rules on a snapshot of the cloud. Nothing is changed.",
        commands,
        argv,
        **streams,
    )


if __name__ == "__main__":
    sys.exit(main())
