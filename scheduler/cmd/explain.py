"""berth-explain: why was this host chosen, and why was no host found?

Exit status: 0 answered, 1 there is no such decision or host, 255 there is no answer.
"""

from functools import partial
import sys

from scheduler.cmd import operator_app

main = partial(
    operator_app.run,
    "berth-explain",
    "Explain the decisions of the schedulers.",
    {
        "decision": "explain_decisions:DecisionCommand",
        "host": "explain_host:Host",
        "list": "explain_decisions:ListDecisions",
        "report": "explain_report:ReportCommand",
    },
)

if __name__ == "__main__":
    sys.exit(main())
