"""berth-explain: why was this host chosen, and why was no host found?

Exit status: 0 answered, 1 there is no such decision or host, 255 there is no answer.
"""

import sys
from typing import Any

from scheduler.cmd import operator_app


def commands() -> operator_app.Commands:
    from scheduler.cmd import explain_decisions, explain_host, explain_report

    return {
        "decision": explain_decisions.DecisionCommand,
        "host": explain_host.Host,
        "list": explain_decisions.ListDecisions,
        "report": explain_report.ReportCommand,
    }


def main(argv: list[str] | None = None, **streams: Any) -> int:
    """Run a command and return its exit status. ``argv`` is the command line without the program's name."""
    return operator_app.run(
        "berth-explain", "Explain the decisions of the schedulers.", commands, argv, **streams
    )


if __name__ == "__main__":
    sys.exit(main())
