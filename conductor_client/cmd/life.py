"""The life of a stand-in's process.

Exit status: 0 after SIGTERM, 1 if it cannot start, 2 for an unknown argument.
"""

import signal
import sys

from oslo_concurrency import lockutils
from oslo_log import log as logging

from conductor_client import conf as options
from scheduler import errors


def run(prog, make_server, argv=None):
    """Run a command: read the options, serve what ``make_server(conf)`` returns, until SIGTERM or SIGINT.

    Says on standard output when it is ready. What is being done at the signal comes to its end. Returns the
    exit status.
    """
    try:
        conf = options.load(sys.argv[1:] if argv is None else argv, prog)
    except errors.ConfigError as error:
        print(f"{prog}: {error}", file=sys.stderr)
        return 1
    logging.setup(conf, prog)
    # by which oslo.messaging names its queues, if it is to keep their names
    lockutils.set_defaults(conf.oslo_concurrency.lock_path)
    stop = {signal.SIGTERM, signal.SIGINT}
    # threads inherit this, so that the signals come to sigwait alone
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    server = make_server(conf)
    server.start()
    print(f"{prog} is ready", flush=True)
    signal.sigwait(stop)
    server.stop()
    server.wait()
    return 0
