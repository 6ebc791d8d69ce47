"""The life of a stand-in's process."""

import signal
import sys

from oslo_log import log as logging

from conductor_client import conf as options


def load(argv, prog):
    """Options and logging of a command."""
    conf = options.load(sys.argv[1:] if argv is None else argv, prog)
    logging.setup(conf, prog)
    return conf


def serve(server, name):
    """Serve until SIGTERM or SIGINT, then let what is being done come to its end. Says when it is ready."""
    stop = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, stop)
    server.start()
    print(f"{name} is ready", flush=True)
    signal.sigwait(stop)
    server.stop()
    server.wait()
    return 0
