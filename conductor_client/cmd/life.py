"""The life of a stand-in's process.

Exit status: 0 after SIGTERM, 1 if it cannot start, 2 for an unknown argument.
"""

from collections.abc import Callable, Sequence
import signal
import sys

from oslo_concurrency import lockutils
from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging

from conductor_client import conf as options
from scheduler import errors


def run(
    prog: str,
    make_server: Callable[[cfg.ConfigOpts], messaging.MessageHandlingServer],
    argv: Sequence[str] | None = None,
) -> int:
    """Run a command until SIGTERM or SIGINT; requests in progress are finished.

    It prints a line when it is ready.

    Args:
        prog: The name of the command.
        argv: The command line without the name; None for that of the process.

    Returns:
        The exit status.
    """
    try:
        conf = options.load(sys.argv[1:] if argv is None else argv, prog)
    except errors.ConfigError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 1
    logging.setup(conf, prog)
    # oslo.messaging keeps the names of its queues there, if it is configured to
    lockutils.set_defaults(conf.oslo_concurrency.lock_path)
    stop = {signal.SIGTERM, signal.SIGINT}
    # threads inherit the mask, so that only sigwait receives the signals
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    server = make_server(conf)
    server.start()
    print(f"{prog} is ready", flush=True)
    signal.sigwait(stop)
    server.stop()
    server.wait()
    return 0
