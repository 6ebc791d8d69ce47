"""berth-explain: why was this host chosen, why was no host found, and what do requests wait for?

Exit status: 0 answered, 1 there is no such decision or host, 255 there is no answer.
"""

from functools import partial
import sys

from scheduler.operators.command import app

main = partial(
    app.run,
    "berth-explain",
    "Explain the decisions of the schedulers.",
    {
        "decision": "explain.decision_commands:DecisionCommand",
        "host": "explain.host_commands:Host",
        "list": "explain.decision_commands:ListDecisions",
        "report": "report.command:ReportCommand",
        "why": "explain.ticket:Why",
        "waiting": "explain.waiting_command:Waiting",
    },
)

if __name__ == "__main__":
    sys.exit(main())
