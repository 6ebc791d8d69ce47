"""The daemon with stand-ins for manager and RPC server, as a program. What happens is told on stdout.

Behaviour is chosen in the environment: ``TEST_BUSY`` seconds that a stopping server needs for its last request,
``TEST_NO_BROKER`` a server that waits for its broker for ever, ``TEST_FAIL`` a manager that cannot start,
``TEST_NO_DATABASE`` a file without which the API database cannot be read,
``TEST_GATE`` a file without which no server starts; with ``TEST_HANG`` it hangs when it is reset. With ``TEST_RPC`` the
server is the real one, and a request takes that many seconds; with ``TEST_POISON`` too it kills its process then.
With ``TEST_HANGUP`` it gets a SIGHUP while it starts. With ``TEST_SLOW_STOP`` closing the server takes that many
seconds although no request is in progress. With ``TEST_STUCK`` the manager never ends its stop.

A manager with 13 attempts cannot be built; with 14 it raises SystemExit and with 15 it is killed.
"""

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
    # one write a line: several threads share the pipe
    os.write(1, (" ".join(str(word) for word in words) + "\n").encode())


class Manager:
    outages = None
    database_was_read = False

    def __init__(self, conf):
        self.conf = conf
        from scheduler.stream.decision_stream import NoStream

        self.parts = SimpleNamespace(claims=SimpleNamespace(on_event=None))
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

    def catch_up(self):
        pass

    def start(self):
        if os.environ.get("TEST_FAIL"):
            raise errors.HostFilterNotFound(["NoSuchFilter"])
        tell("manager starts", os.getpid())

    def stop_claiming(self):
        """Nothing is claimed here."""

    def stop(self, seconds_left):
        tell("manager stops", seconds_left() > 0)
        while "TEST_STUCK" in os.environ:
            time.sleep(1)

    def reset(self):
        tell("manager looks anew", self.conf.scheduler.max_attempts, self.conf.report_interval)
        if "TEST_HANG" in os.environ:
            # takes years, and lets no other thread run
            re.match("(a+)+b", "a" * 60)

    def select_destinations(self, context, spec, instance_uuids, return_objects, return_alternates):
        tell("request begins", os.getpid())
        time.sleep(float(os.environ["TEST_RPC"]))
        if os.environ.get("TEST_POISON"):
            os.kill(os.getpid(), signal.SIGKILL)
        tell("request ends")
        return []


class Bus:
    def close(self):
        tell("connections are closed")


class Server:
    bus = Bus()
    open_calls = ("call",) * ("TEST_BUSY" in os.environ)

    def connect(self):
        tell("broker answers")

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


original = command.parts


def parts(conf):
    from scheduler.daemon.service import Periodic, ServiceParts
    from scheduler.health.state import ServiceState

    if "TEST_HANGUP" in os.environ and not conf.check_config:
        os.kill(os.getpid(), signal.SIGHUP)

    def periodics(conf, manager):
        return [Periodic("beat", lambda: tell("beat", os.getpid()), interval=1000)]

    server = original(conf).server if "TEST_RPC" in os.environ else lambda conf, manager: Server()
    return ServiceParts(
        Manager,
        server,
        periodics,
        read_state=lambda manager, _server: ServiceState(api_database=manager and manager.database_was_read),
    )


if __name__ == "__main__":
    command.parts = parts
    sys.exit(command.main())
