"""Boot instances in a small cloud, with computes that sometimes fail, and check the outcome in Placement."""

import argparse
from functools import partial
import os
import signal
import sys

INTERRUPTED = 130


def arguments(argv):
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)
    whole = partial(number, int, 1)
    parser.add_argument(
        "--hosts", type=partial(whole, 20000), default=100, help="compute hosts, 1 to 20000 (%(default)s)"
    )
    parser.add_argument(
        "--cells",
        type=partial(whole, 50),
        default=2,
        help="cells to spread the hosts over, 1 to 50, at most as many as hosts (%(default)s)",
    )
    parser.add_argument(
        "--instances",
        type=partial(whole, 100000),
        default=20,
        help="instances to boot, at least 1 (%(default)s)",
    )
    parser.add_argument(
        "--fail-rate",
        type=partial(number, float, 0, 1),
        default=0.15,
        help="share of builds that fail, 0 to 1 (%(default)s)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the random requests and failures (%(default)s)"
    )
    parser.add_argument(
        "--partitions",
        type=partial(whole, 8),
        default=1,
        help="groups of hosts with schedulers of their own, 1 to 8, at most as many as hosts; with more than "
        "one there is a router besides (%(default)s)",
    )
    parser.add_argument(
        "--schedulers",
        type=partial(whole, 8),
        default=1,
        help="schedulers of each partition, 1 to 8 (%(default)s)",
    )
    parser.add_argument(
        "--rabbit",
        metavar="URL",
        type=rabbit_url,
        help="use this RabbitMQ on this machine, not the in-memory bus; the demo makes virtual hosts of its "
        "own there with rabbitmqctl, and removes them in the end. Several schedulers need one: without a URL "
        "it is started",
    )
    parser.add_argument("--verbose", action="store_true", help="also show the log")
    options = parser.parse_args(argv)
    if options.cells > options.hosts:
        parser.error(f"argument --cells: {options.cells} cells need at least as many hosts")
    if options.partitions > options.hosts:
        parser.error(f"argument --partitions: {options.partitions} partitions need at least as many hosts")
    return options


def number(kind, least, most, text):
    """Return the value of an argument; raise ArgumentTypeError out of range."""
    try:
        value = kind(text)
    except ValueError:
        value = None
    if value is None or not least <= value <= most:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least} to {most}")
    return value


def rabbit_url(text):
    """Return the URL of a RabbitMQ; raise ArgumentTypeError if it cannot be used."""
    from tools.rig import vhosts

    try:
        return vhosts.check(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def leave(*_):
    """End this process at once."""
    os.write(sys.stderr.fileno(), b"\ntools/demo: interrupted\n")
    os._exit(INTERRUPTED)


def main(argv=None):
    """Run the demo; return its exit status."""
    # Nothing is started yet that has to be stopped, and an exception in an import may be lost
    before = signal.signal(signal.SIGINT, leave)
    options = arguments(argv)
    from oslo_service import backend

    # Select the backend before oslo.messaging is imported, which would select eventlet.
    backend.init_backend(backend.BackendType.THREADING)
    from tools import demo_run
    from tools.rig import servers

    servers.stop_on_sigterm()
    signal.signal(signal.SIGINT, before)
    # The table has signs that a terminal without UTF-8 cannot show
    sys.stdout.reconfigure(errors="replace")
    try:
        return demo_run.run(options)
    except KeyboardInterrupt:
        print("\ntools/demo: interrupted, everything is stopped and removed", file=sys.stderr)
        return INTERRUPTED
    except RuntimeError as error:
        print(f"tools/demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
