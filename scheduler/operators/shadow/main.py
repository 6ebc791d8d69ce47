"""berth-shadow: decides copies of nova-scheduler's requests, and reports how the decisions compare.

Exit status of run: 0 after SIGTERM or SIGINT, 1 if it cannot start. Of report: 0; 1 if there is nothing to
report.
"""

from functools import partial
import sys

from scheduler.operators.command import app

main = partial(
    app.run,
    "berth-shadow",
    "Decide copies of nova-scheduler's requests, and compare the decisions.",
    {
        "run": "shadow.commands:RunCommand",
        "report": "shadow.commands:ReportCommand",
    },
)

if __name__ == "__main__":
    sys.exit(main())
