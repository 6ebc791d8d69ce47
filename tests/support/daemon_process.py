"""The daemon with stand-ins for manager and RPC server, as a program. What happens is told on stdout.

Behaviour is chosen in the environment: ``TEST_BUSY`` seconds that a stopping server needs for its last request,
``TEST_NO_BROKER`` a server that waits for its broker for ever, ``TEST_FAIL`` a manager that cannot start,
``TEST_NO_DATABASE`` a file without which the API database cannot be read,
``TEST_GATE`` a file without which no server starts, ``TEST_HANG`` a file with the number of the process that hangs when
it is reset. With ``TEST_RPC`` the server is the real one, and a request takes that many seconds; with ``TEST_POISON``
too it kills its process then. ``TEST_NO_FORK`` is the number of forks that fail after the first one.
With ``TEST_HANGUP`` it gets a SIGHUP while it starts. With ``TEST_SLOW_STOP`` closing the server takes that many
seconds although no request is in progress. With ``TEST_ALARM`` it tells in the end whether an alarm is left.

A manager with 13 attempts cannot be built; with 14 it raises SystemExit and with 15 it is killed.
"""

import errno
import itertools
import os
import pathlib
import re
import signal
import sys
import time
from types import SimpleNamespace

sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))

from scheduler import errors
from scheduler.cmd import scheduler as command


def tell(*words):
    # one write a line: several processes share the pipe
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


class Manager:
    outages = None
    database_was_read = False

    def __init__(self, conf):
        self.conf = conf
        from scheduler.stream.decision_stream import NoStream

        self.parts = SimpleNamespace(claimer=SimpleNamespace(on_event=None))
        self.stream = NoStream()
        attempts = conf.scheduler.max_attempts
        if attempts == 13:
            raise errors.HostFilterNotFound(["NoSuchFilter"])
        if attempts == 14:
            raise SystemExit(5)
        if attempts == 15:
            os.kill(os.getpid(), signal.SIGKILL)

    def wait_until_ready(self, timeout):
        away = os.environ.get("TEST_NO_DATABASE")
        end = time.monotonic() + timeout
        while away and not pathlib.Path(away).exists():
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        self.database_was_read = True
        return True

    def wait_until_able(self, timeout):
        away = os.environ.get("TEST_NO_PLACEMENT")
        if away and not pathlib.Path(away).exists():
            tell("manager waits for Placement")
            time.sleep(0.05)
            return False
        return True

    def catch_up(self, worker):
        pass

    def start(self):
        if os.environ.get("TEST_FAIL"):
            raise errors.HostFilterNotFound(["NoSuchFilter"])
        tell("manager starts", os.getpid())

    def stop_claiming(self):
        """Nothing is claimed here."""

    def stop(self, timeout):
        tell("manager stops", timeout > 0)

    def reset(self):
        tell("manager looks anew", self.conf.scheduler.max_attempts, self.conf.report_interval)
        chosen = os.environ.get("TEST_HANG")
        if chosen and pathlib.Path(chosen).read_text() == str(os.getpid()):
            # takes years, and lets no other thread run
            re.match("(a+)+b", "a" * 60)

    def select_destinations(self, context, spec, instance_uuids, return_objects, return_alternates):
        tell("request begins", os.getpid())
        time.sleep(float(os.environ["TEST_RPC"]))
        if os.environ.get("TEST_POISON"):
            os.kill(os.getpid(), signal.SIGKILL)
        tell("request ends")
        return []


class Transport:
    def cleanup(self):
        tell("connections are closed")


class Server:
    transport = Transport()
    busy = "TEST_BUSY" in os.environ

    def start(self):
        tell("server starts", os.getpid())
        gate = os.environ.get("TEST_GATE")
        while os.environ.get("TEST_NO_BROKER") or (gate and not pathlib.Path(gate).exists()):
            time.sleep(0.01)

    def stop(self):
        tell("server stops")

    def wait(self):
        time.sleep(float(os.environ.get("TEST_BUSY") or os.environ.get("TEST_SLOW_STOP", "0")))
        tell("last request is answered")


def fail_to_fork(times):
    from scheduler.daemon import forking

    real, calls = os.fork, itertools.count()

    def fork():
        if 1 <= next(calls) <= times:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return real()

    os.fork, forking.PAUSE = fork, 0.01


original = command.parts


def parts(conf):
    from scheduler.daemon.parts import Periodic, WorkerParts
    from scheduler.health.reports import WorkerState

    fail_to_fork(int(os.environ.get("TEST_NO_FORK", "0")))
    if "TEST_HANGUP" in os.environ:
        os.kill(os.getpid(), signal.SIGHUP)

    def periodics(conf, manager):
        return [Periodic("beat", lambda: tell("beat", os.getpid()), interval=1000)]

    server = original(conf).server if "TEST_RPC" in os.environ else lambda conf, manager, worker: Server()
    return WorkerParts(
        Manager,
        server,
        periodics,
        read_state=lambda manager, _server: WorkerState(api_database=manager and manager.database_was_read),
    )


if __name__ == "__main__":
    command.parts = parts
    status = command.main()
    if "TEST_ALARM" in os.environ:
        tell("alarm is left" if signal.getitimer(signal.ITIMER_REAL)[0] else "no alarm is left")
    sys.exit(status)
