"""Boot instances in a small cloud, with computes that sometimes fail, and check the outcome in Placement."""

import argparse
import sys

from oslo_service import backend


def arguments(argv):
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    parser.add_argument("--hosts", type=int, default=100, help="compute hosts (%(default)s)")
    parser.add_argument("--cells", type=int, default=2, help="cells to spread the hosts over (%(default)s)")
    parser.add_argument("--instances", type=int, default=20, help="instances to boot (%(default)s)")
    parser.add_argument(
        "--fail-rate", type=float, default=0.15, help="share of builds that fail (%(default)s)"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the random requests and failures (%(default)s)"
    )
    parser.add_argument("--rabbit", metavar="URL", help="use this RabbitMQ, not the in-memory bus")
    parser.add_argument("--verbose", action="store_true", help="also show the log")
    return parser.parse_args(argv)


def main(argv=None):
    """Run the demo; return its exit status."""
    options = arguments(argv)
    # Select the backend before oslo.messaging is imported, which would select eventlet.
    backend.init_backend(backend.BackendType.THREADING)
    from tools import demo_run

    return demo_run.run(options)


if __name__ == "__main__":
    sys.exit(main())
