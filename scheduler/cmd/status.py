"""berth-status: checks of a deployment."""

import sys
from typing import Any

from scheduler.cmd import operator_app


def commands() -> operator_app.Commands:
    from scheduler.cmd import audit, upgrade_check

    return {
        "audit": audit.AuditCommand,
        "upgrade check": upgrade_check.UpgradeCheckCommand,
    }


def main(argv: list[str] | None = None, **streams: Any) -> int:
    """Run a command and return its exit status. ``argv`` is the command line without the program's name."""
    return operator_app.run("berth-status", "Check a deployment.", commands, argv, **streams)


if __name__ == "__main__":
    sys.exit(main())
