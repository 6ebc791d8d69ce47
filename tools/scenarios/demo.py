"""Boot instances in a small cloud, with computes that sometimes fail, and check the outcome in Placement."""

import argparse
from functools import partial
import logging
import os
import signal
import sys

INTERRUPTED = 130


def arguments(argv):
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__)

    def add(name, kind, least, most, default, text):
        parser.add_argument(
            name,
            type=partial(number, kind, least, most),
            default=default,
            help=f"{text}, {least} to {most} (%(default)s)",
        )

    add("--hosts", int, 1, 20000, 100, "compute hosts")
    add("--cells", int, 1, 50, 2, "cells to spread the hosts over, at most as many as hosts")
    add("--instances", int, 1, 100000, 20, "instances to boot")
    add("--fail-rate", float, 0, 1, 0.15, "share of builds that fail")
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the random requests and failures (%(default)s)"
    )
    text = "groups of hosts with schedulers of their own and a router before them, at most as many as hosts"
    add("--partitions", int, 1, 8, 1, text)
    add("--schedulers", int, 1, 8, 1, "schedulers of each partition")
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
    for name in ("cells", "partitions"):
        if getattr(options, name) > options.hosts:
            parser.error(f"argument --{name}: {getattr(options, name)} {name} need at least as many hosts")
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
    from tools.rig import command
    from tools.scenarios import demo_run

    signal.signal(signal.SIGINT, before)
    # The table has signs that a terminal without UTF-8 cannot show
    sys.stdout.reconfigure(errors="replace")
    try:
        with command.running(
            "demo", level=logging.INFO if options.verbose else logging.CRITICAL
        ) as directory:
            return demo_run.run(options, directory)
    except KeyboardInterrupt:
        print("\ntools/demo: interrupted, everything is stopped and removed", file=sys.stderr)
        return INTERRUPTED
    except RuntimeError as error:
        print(f"tools/demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
