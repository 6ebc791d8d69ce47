"""berth-plan: what would happen if; nothing is changed without --run.

Exit status: 0 every instance finds a place, 3 some do not, 255 no plan could be made.
"""

from functools import partial
import sys

from scheduler.operators.command import app

main = partial(
    app.run,
    "berth-plan",
    "Plan with the scheduler's own rules on a snapshot of the cloud. Nothing is changed without --run.",
    {
        "drain": "plan.instance_commands:Drain",
        "survive": "plan.instance_commands:Survive",
        "balance": "plan.instance_commands:Balance",
        "policy": "plan.instance_commands:Policy",
        "capacity": "plan.request_commands:Capacity",
        "dry-run": "plan.request_commands:DryRun",
    },
)

if __name__ == "__main__":
    sys.exit(main())
