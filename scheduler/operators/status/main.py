"""berth-status: checks of a deployment."""

from functools import partial
import sys

from scheduler.operators.command import app

main = partial(
    app.run,
    "berth-status",
    "Check a deployment.",
    {
        "audit": "audit.command:AuditCommand",
        "upgrade check": "status.upgrade_check:UpgradeCheckCommand",
    },
)

if __name__ == "__main__":
    sys.exit(main())
