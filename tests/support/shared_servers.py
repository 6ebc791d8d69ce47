"""Servers that all processes of one run of the tests share: the one that started the run has them.

RabbitMQ takes four seconds of a processor to start, and its users keep apart by virtual hosts; those of MariaDB and
PostgreSQL by databases.
"""

import contextlib
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Listener
import secrets
import threading

from tools.rig import servers

#: By name, how each kind is started; what it gives can be pickled.
KINDS = {
    "rabbitmq": servers.rabbitmq,
    "mariadb": lambda: _url_of(servers.mariadb()),
    "postgresql": lambda: _url_of(servers.postgresql()),
}


@contextlib.contextmanager
def _url_of(database):
    with database as server:
        yield server.url


class SharedServers:
    """The servers, each started when somebody asks for it first; ``address`` is for the ``client``."""

    def __init__(self):
        self._locks = {kind: threading.Lock() for kind in KINDS}
        self._running = {}
        self._stack = contextlib.ExitStack()
        key = secrets.token_bytes(16)
        self._listener = Listener(authkey=key)
        self.address = [self._listener.address, key.hex()]
        threading.Thread(target=self._accept, name="shared-servers", daemon=True).start()

    def close(self):
        """End all servers; one that is being started is waited for."""
        for lock in self._locks.values():
            lock.acquire()  # for good: none is started any more
        self._listener.close()
        self._stack.close()

    def _accept(self):
        while True:
            try:
                connection = self._listener.accept()
            except (AuthenticationError, ConnectionError, EOFError):  # the one who asked has ended
                continue
            except OSError:  # it is closed
                return
            threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection):
        with connection, contextlib.suppress(EOFError, ConnectionError):  # the one who asked has ended
            kind = connection.recv()
            try:
                with self._locks[kind]:
                    if kind not in self._running:
                        self._running[kind] = self._stack.enter_context(KINDS[kind]())
                found = self._running[kind]
            except Exception as error:  # noqa: BLE001 - raised where the server is needed
                found = RuntimeError(str(error))
            connection.send(found)


@contextlib.contextmanager
def server(config, kind):
    """Give the server of this kind of a run of several processes; else one that ends with the test session."""
    address = getattr(config, "workerinput", {}).get("shared_servers")
    if not address:
        with KINDS[kind]() as started:
            yield started
        return
    path, key = address
    with Client(path, authkey=bytes.fromhex(key)) as connection:
        connection.send(kind)
        found = connection.recv()
    if isinstance(found, Exception):
        raise found
    yield found
