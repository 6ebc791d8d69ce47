"""Run a scenario: ``python -m tools.scenarios NAME [OPTION...]``, as the commands in tools/ do.

An interrupt, or a server that does not start, ends it with one line.
"""

import importlib
import sys

from oslo_service import backend

INTERRUPTED = 130
SCENARIOS = {
    "demo": "tools.scenarios.demo",
    "chaos": "tools.scenarios.chaos",
    "why-not": "tools.scenarios.why_not",
    "controller": "tools.scenarios.controller",
    "cluster": "tools.scenarios.cluster",
    "image": "tools.scenarios.image",
    "worked-cases": "tools.worked_cases.command",
    "benchmark": "tools.bench.command",
    "cloud": "tools.openstack.command",
}


def main() -> int:
    """Run the scenario that the command line names; return its exit status."""
    _, name, *arguments = sys.argv
    # The demo has signs that a terminal without UTF-8 cannot show
    sys.stdout.reconfigure(errors="replace")
    try:
        # Select the backend before oslo.messaging is imported, which would select eventlet.
        backend.init_backend(backend.BackendType.THREADING)
        return importlib.import_module(SCENARIOS[name]).main(arguments) or 0
    except KeyboardInterrupt:
        print(f"\ntools/{name}: interrupted, everything is stopped and removed", file=sys.stderr)
        return INTERRUPTED
    except RuntimeError as error:
        print(f"tools/{name}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
