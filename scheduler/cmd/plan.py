"""berth-plan: what would happen if; nothing is changed.

Exit status: 0 every instance finds a place, 3 some do not, 255 no plan could be made.
"""

from functools import partial
import sys

from scheduler.cmd import operator_app

main = partial(
    operator_app.run,
    "berth-plan",
    "Plan with the scheduler's own rules on a snapshot of the cloud. Nothing is changed.",
    {
        "drain": "plan_commands:Drain",
        "survive": "plan_commands:Survive",
        "balance": "plan_commands:Balance",
        "policy": "plan_commands:Policy",
        "capacity": "plan_requests:Capacity",
        "dry-run": "plan_requests:DryRun",
    },
)

if __name__ == "__main__":
    sys.exit(main())
