"""Run a scenario: ``tools/berth NAME [OPTION...]``.

An interrupt, or a server that does not start, ends it with one line.
"""

import importlib
import sys

INTERRUPTED, USAGE = 130, 2
SCENARIOS = {
    "demo": "tools.scenarios.demo",
    "simulate": "tools.simulation.command",
    "chaos": "tools.scenarios.chaos",
    "why-not": "tools.scenarios.why_not",
    "package": "tools.scenarios.package",
    "controller": "tools.scenarios.controller",
    "cluster": "tools.scenarios.cluster",
    "image": "tools.scenarios.image",
    "worked-cases": "tools.worked_cases.command",
    "benchmark": "tools.bench.command",
    "cloud": "tools.openstack.command",
}


def main() -> int:
    """Run the scenario that the command line names; return its exit status."""
    name, *arguments = sys.argv[1:] or [""]
    if name not in SCENARIOS:
        print(f"usage: tools/berth SCENARIO [OPTION...], one of {', '.join(SCENARIOS)}", file=sys.stderr)
        return USAGE
    command = "tools/demo" if name == "demo" else f"tools/berth {name}"
    # The demo has signs that a terminal without UTF-8 cannot show
    sys.stdout.reconfigure(errors="replace")
    try:
        if name != "simulate":  # which puts modules of its own in the place of others before it imports any
            # Select the backend before oslo.messaging is imported, which would select eventlet.
            from oslo_service import backend

            backend.init_backend(backend.BackendType.THREADING)
        return importlib.import_module(SCENARIOS[name]).main(arguments) or 0
    except KeyboardInterrupt:
        print(f"\n{command}: interrupted, everything is stopped and removed", file=sys.stderr)
        return INTERRUPTED
    except RuntimeError as error:
        print(f"{command}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
