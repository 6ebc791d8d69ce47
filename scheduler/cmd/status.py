"""berth-status: checks of a deployment."""

from functools import partial
import sys

from scheduler.cmd import operator_app

main = partial(
    operator_app.run,
    "berth-status",
    "Check a deployment.",
    {
        "audit": "audit:AuditCommand",
        "upgrade check": "upgrade_check:UpgradeCheckCommand",
    },
)

if __name__ == "__main__":
    sys.exit(main())
