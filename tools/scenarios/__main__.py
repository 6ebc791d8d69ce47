"""Run a scenario: ``python -m tools.scenarios NAME [OPTION...]``, as the commands in tools/ do.

An interrupt, or a server that does not start, ends it with one line.
"""

import importlib
import os
import signal
import sys

INTERRUPTED = 130
SCENARIOS = {
    "demo": "tools.scenarios.demo",
    "chaos": "tools.scenarios.chaos",
    "soak": "tools.scenarios.soak",
    "swap": "tools.scenarios.swap",
    "fuzz": "tools.scenarios.fuzz",
    "worked-cases": "tools.worked_cases.command",
    "benchmark": "tools.bench.command",
}


def leave(*_: object) -> None:
    """End this process at once."""
    os.write(sys.stderr.fileno(), f"\ntools/{sys.argv[1]}: interrupted\n".encode())
    os._exit(INTERRUPTED)


def main() -> int:
    """Run the scenario that the command line names; return its exit status."""
    _, name, *arguments = sys.argv
    # Nothing is started yet that has to be stopped, and an exception in an import may be lost
    before = signal.signal(signal.SIGINT, leave)
    from oslo_service import backend

    # Select the backend before oslo.messaging is imported, which would select eventlet.
    backend.init_backend(backend.BackendType.THREADING)
    scenario = importlib.import_module(SCENARIOS[name])
    signal.signal(signal.SIGINT, before)
    # The demo has signs that a terminal without UTF-8 cannot show
    sys.stdout.reconfigure(errors="replace")
    try:
        return scenario.main(arguments) or 0
    except KeyboardInterrupt:
        print(f"\ntools/{name}: interrupted, everything is stopped and removed", file=sys.stderr)
        return INTERRUPTED
    except RuntimeError as error:
        print(f"tools/{name}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
