"""Private servers on loopback (RabbitMQ, MariaDB, PostgreSQL) that can be stopped, killed and started again.

Each has its data in a directory of its own, which is removed in the end. The programs must be installed.
"""

from collections.abc import Iterator, Sequence
import contextlib
import getpass
import os
from pathlib import Path
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from typing import Any
import uuid

import kombu
import psutil
import sqlalchemy as sa

from tools.rig.service import ServiceProcess

#: Erlang's own port is the one after it.
RABBIT_PORTS = range(21000, 25000, 2)
DATABASE_PORTS = range(25000, 29000)
TERMINATED = 128 + signal.SIGTERM  # status of a command that was ended by SIGTERM
RABBIT_START_TIMEOUT = 200  # seconds until a node of RabbitMQ does
RABBIT_CONFIGURATION = """\
listeners.tcp.default = 127.0.0.1:{port}
default_user = {user}
default_pass = {user}
"""
#: An option of MariaDB: what it writes need not survive a crash of the machine.
VOLATILE = ("--innodb-flush-method=nosync",)
#: Virtual hosts that are made by one expression.
VHOSTS_AT_ONCE = 12
#: Its own protocol, by which a node is commanded, listens on all addresses otherwise.
ERLANG_ON_LOOPBACK = "-kernel inet_dist_use_interface {127,0,0,1}"
NEW_VHOSTS = """\
lists:foreach(
    fun(Name) ->
        ok = rabbit_vhost:add(Name, <<"tests">>),
        All = <<".*">>,
        ok = rabbit_auth_backend_internal:set_permissions(<<"{user}">>, Name, All, All, All, <<"tests">>)
    end,
    [{names}]
).
"""
QUEUES = """\
lists:flatten([
    begin
        {{resource, _, _, Name}} = proplists:get_value(name, Queue),
        Values = [proplists:get_value(Item, Queue) || Item <- [type, messages]],
        io_lib:format("~s ~p ~p ", [Name | Values])
    end
    || Queue <- rabbit_amqqueue:info_all(<<"{vhost}">>, [name, type, messages])
]).
"""
#: A queue that is declared says how many consumers it has, with those cancelled ones whose messages are open.
CONSUMERS = """\
length([
    consumer
    || Consumer <- rabbit_amqqueue:consumers_all(<<"{vhost}">>),
    element(4, proplists:get_value(queue_name, Consumer)) =:= <<"{queue}">>
]).
"""
CLOSE_CONNECTIONS = """\
[
    rabbit_networking:close_connection(proplists:get_value(pid, Info), "test")
    || Info <- rabbit_networking:connection_info_all([pid, vhost]),
    proplists:get_value(vhost, Info) =:= <<"{vhost}">>
].
"""
#: RabbitMQ's own programs; those on PATH change the user, whose node is another one.
RABBIT_PROGRAMS = "/usr/lib/rabbitmq/bin"


def stop_on_sigterm() -> None:
    """Let SIGTERM end this command as an exit does, which stops the servers that it has started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(TERMINATED))


def path_of_servers() -> str:
    """Return PATH with the directories in which servers are installed."""
    return os.pathsep.join([RABBIT_PROGRAMS, os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def free_port(ports: Sequence[int]) -> int:
    """Return a port out of these on which nothing listens."""
    while True:
        port = random.choice(ports)
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port


def signal_tree(pid: int, number: int) -> None:
    """Send a signal to a process and to all its children, parents first."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in (parent, *parent.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(number)


class Server(ServiceProcess):
    """A server, all of whose processes get its signals."""

    def signal(self, number: int) -> None:
        """Send a signal to all processes of the server."""
        signal_tree(self.pid, number)

    def kill(self) -> None:
        """Kill the server at once; what it has on disk stays."""
        if self.running:
            self.signal(signal.SIGKILL)
            self._process.wait()


class RabbitNode(Server):
    """One node of RabbitMQ; its data stays when it is killed. ``start`` does not wait: see ``wait``.

    Attributes:
        name: The name of the node.
        port: Its TCP port.
    """

    #: Name and password of its user, who has all rights on the default virtual host.
    user = "test"
    #: Where it listens.
    address = "127.0.0.1"

    def __init__(self, directory: Path, port: int, dist_port: int, more: str = "", erlang: str = "") -> None:
        """Describe a node; ``start`` runs it.

        Args:
            directory: Made for what it keeps. Nodes of one cluster have one parent directory.
            port: See ``port``.
            dist_port: Erlang's port. By default it is one of those that the system gives to clients.
            more: Lines to add to its configuration.
            erlang: Arguments of Erlang.
        """
        self.name = f"berth-{port}@localhost"
        self.port = port
        self._directory = directory
        self._erlang = erlang
        self._dist_port = dist_port
        directory.mkdir(parents=True, exist_ok=True)
        text = RABBIT_CONFIGURATION.format(port=port, user=self.user)
        (directory / "rabbitmq.conf").write_text(text + more)
        super().__init__(["rabbitmq-server"], directory / "out", {**os.environ, **self.variables})

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs to use the node, which cannot start or kill it."""
        return {name: value for name, value in self.__dict__.items() if name != "_process"}

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the environment with which its programs work on it."""
        return {
            "PATH": path_of_servers(),
            "HOME": str(self._directory.parent),  # of the cookie, which nodes of a cluster share
            "RABBITMQ_NODENAME": self.name,
            "RABBITMQ_DIST_PORT": str(self._dist_port),
            "RABBITMQ_CONFIG_FILE": str(self._directory / "rabbitmq.conf"),
            "RABBITMQ_MNESIA_BASE": str(self._directory),
            "RABBITMQ_LOG_BASE": str(self._directory),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._directory / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": self._erlang,
        }

    def connect(self) -> kombu.Connection:
        """Return a connection of its user."""
        url = f"amqp://{self.user}:{self.user}@{self.address}:{self.port}//"
        return kombu.Connection(url, connect_timeout=5)

    def accepts(self) -> bool:
        """Return whether clients can log in."""
        try:
            with self.connect() as connection:
                connection.transport.establish_connection().close()
                return True
        except Exception:  # noqa: BLE001 - of many libraries; it does not answer
            return False

    def wait(self) -> None:
        """Wait until clients can log in; raises as ``wait_until``."""
        self.wait_until(self.accepts, f"{self.name} does not start", RABBIT_START_TIMEOUT)

    def evaluate(self, expression: str) -> str:
        """Let the node evaluate an Erlang expression, and return the value as Erlang writes it.

        A command of rabbitmqctl would start an Erlang of its own, which takes a second of a processor.

        Raises:
            RuntimeError: It cannot be evaluated.
        """
        done = subprocess.run(
            # Others may call at the same time, whose nodes need other names
            ["erl_call", "-h", f"call-{uuid.uuid4().hex}", "-sname", self.name, "-e"],
            env={**os.environ, **self.variables},
            input=f"{expression}\n",
            check=False,
            capture_output=True,
            text=True,
        )
        outcome, _, value = done.stdout.strip()[1:-1].partition(", ")
        if outcome != "ok":
            raise RuntimeError(f"{self.name} cannot evaluate {expression}: {value}{done.stderr}")
        return value

    def make_vhosts(self, names: Sequence[str]) -> None:
        """Make virtual hosts for the user."""
        binaries = ", ".join(f'<<"{name}">>' for name in names)
        self.evaluate(NEW_VHOSTS.format(names=binaries, user=self.user))


class Rabbit(RabbitNode):
    """A RabbitMQ of one node; its users keep apart by virtual hosts."""

    def __init__(self, directory: Path, port: int) -> None:
        """Describe a broker; ``start`` runs it."""
        super().__init__(directory, port, port + 1, erlang=ERLANG_ON_LOOPBACK)
        self._unused: list[str] = []

    def start(self) -> None:
        """Start the broker, also again, and wait until it answers."""
        super().start()
        self.wait()

    @property
    def url(self) -> str:
        """The transport URL of the default virtual host."""
        return self.url_of("/")

    def url_of(self, vhost: str, port: int | None = None) -> str:
        """Return the transport URL of a virtual host, also by another port that leads to the broker."""
        return f"rabbit://{self.user}:{self.user}@127.0.0.1:{port or self.port}/{vhost}"

    def vhost(self, name: str | None = None) -> str:
        """Return the transport URL of a virtual host that nobody has used; without a name, one of its own."""
        if name:
            self.make_vhosts([name])
        else:
            if not self._unused:
                self._unused += [uuid.uuid4().hex for _ in range(VHOSTS_AT_ONCE)]
                self.make_vhosts(self._unused)
            name = self._unused.pop()
        return self.url_of(name)

    def queues(self, vhost: str) -> list[str]:
        """Return the names of the queues of a virtual host."""
        return [name for name, _, _ in self._queues(vhost)]

    def queue_types(self, vhost: str) -> dict[str, str]:
        """Return the types of the queues of a virtual host (classic, quorum, stream) by name."""
        return {name: kind for name, kind, _ in self._queues(vhost)}

    def messages(self, vhost: str, queue: str) -> int:
        """Return how many messages a queue has, also those that are delivered and not acknowledged."""
        return sum(int(count) for name, _, count in self._queues(vhost) if name == queue)

    def consumers(self, vhost: str, queue: str) -> int:
        """Return how many consumers a queue delivers to; 0 if it does not exist."""
        return int(self.evaluate(CONSUMERS.format(vhost=vhost, queue=queue)))

    def close_connections(self, vhost: str) -> None:
        """Close all connections of clients to a virtual host."""
        self.evaluate(CLOSE_CONNECTIONS.format(vhost=vhost))

    def _queues(self, vhost: str) -> Iterator[tuple[str, str, str]]:
        """Return name, type and number of messages of each queue."""
        words = self.evaluate(QUEUES.format(vhost=vhost)).strip('"[]').split()
        return zip(words[::3], words[1::3], words[2::3], strict=True)


@contextlib.contextmanager
def rabbitmq() -> Iterator[Rabbit]:
    """Run a RabbitMQ."""
    port = free_port(RABBIT_PORTS)
    with tempfile.TemporaryDirectory(prefix="berth-rabbit-", ignore_cleanup_errors=True) as directory:
        rabbit = Rabbit(Path(directory, "node"), port)
        try:
            rabbit.start()
            yield rabbit
        finally:
            rabbit.kill()


class Database(Server):
    """A database server.

    Attributes:
        url: The SQLAlchemy URL of a user who may create databases.
        port: Its TCP port on loopback; None if it listens on a Unix socket only.
    """

    def __init__(
        self, command: Sequence[str], log: Path, url: str, port: int | None = None, user: str | None = None
    ) -> None:
        """Describe a server; the arguments are attributes or those of ``ServiceProcess``."""
        super().__init__(command, log, user=user)
        self.url = url
        self.port = port

    def start(self) -> None:
        """Start the server, also again, and wait until it answers; raises as ``wait_until``."""
        super().start()
        engine = sa.create_engine(self.url, poolclass=sa.NullPool)

        def answers() -> bool:
            with contextlib.suppress(sa.exc.OperationalError), engine.connect():
                return True
            return False

        self.wait_until(answers, "The database server does not start")

    def end(self) -> None:
        """End the server without saving anything."""
        self._process.send_signal(signal.SIGCONT)
        self._process.send_signal(signal.SIGQUIT)
        self._process.wait()


def make_mariadb(options: Sequence[str]) -> None:
    """Make the data of a MariaDB, whose ``root`` needs no password."""
    _make(["mariadb-install-db", *options, "--auth-root-authentication-method=normal", "--skip-test-db"])


@contextlib.contextmanager
def mariadb(*, tcp: bool = False, options: Sequence[str] = VOLATILE) -> Iterator[Database]:
    """Run a MariaDB, on a Unix socket or also on a TCP port, with more options."""
    with _directory(None) as directory:
        common = ["--no-defaults", f"--datadir={directory}/data", f"--user={getpass.getuser()}"]
        make_mariadb(common)
        port = free_port(DATABASE_PORTS) if tcp else None
        network = [f"--port={port}", "--bind-address=127.0.0.1"] if tcp else ["--skip-networking"]
        command = ["mariadbd", *common, f"--socket={directory}/socket", *network]
        url = f"mysql+pymysql://root@localhost/mysql?unix_socket={directory}/socket"
        with _running(Database([*command, *options], Path(directory, "log"), url, port)) as server:
            yield server


def postgresql_user() -> str | None:
    """Return the user as whom PostgreSQL runs if that is another one: it refuses to run as root."""
    return "postgres" if os.geteuid() == 0 else None


@contextlib.contextmanager
def postgresql(*, tcp: bool = False, options: Sequence[str] = ()) -> Iterator[Database]:
    """Run a PostgreSQL, on a Unix socket or also on a TCP port, with more options."""
    programs = subprocess.check_output(["pg_config", "--bindir"], text=True).strip()
    user = postgresql_user()
    with _directory(user) as directory:
        data = ["-D", f"{directory}/data"]
        _make([f"{programs}/initdb", *data, "-A", "trust", "-U", "berth", "-N"], user)
        port = free_port(DATABASE_PORTS) if tcp else None
        network = ["-p", str(port), "-c", f"listen_addresses={'127.0.0.1' if tcp else ''}"]
        command = [f"{programs}/postgres", *data, "-k", directory, "-F", *network[0 if tcp else 2 :]]
        command += options
        place = f"host={directory}&port={port}" if tcp else f"host={directory}"
        url = f"postgresql+psycopg2://berth@/postgres?{place}"
        with _running(Database(command, Path(directory, "log"), url, port, user)) as server:
            yield server


@contextlib.contextmanager
def made_database(server_url: str, name: str) -> Iterator[str]:
    """Give the URL of an empty database on a server; it is dropped in the end."""
    name = f"{name}_{random.randrange(10**9)}"
    engine = sa.create_engine(server_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    _execute(engine, f"CREATE DATABASE {name}")
    yield sa.make_url(server_url).set(database=name).render_as_string(hide_password=False)
    force = " WITH (FORCE)" if engine.name == "postgresql" else ""
    _execute(engine, f"DROP DATABASE {name}{force}")


@contextlib.contextmanager
def _directory(user: str | None) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="berth-server-") as directory:
        if user:
            shutil.chown(Path(directory), user)
        yield directory


def _make(command: Sequence[str], user: str | None = None) -> None:
    environment = {**os.environ, "PATH": path_of_servers()}
    subprocess.run(command, user=user, cwd="/", check=True, capture_output=True, env=environment)


@contextlib.contextmanager
def _running(server: Database) -> Iterator[Database]:
    try:
        server.start()
        yield server
    finally:
        server.end()


def _execute(engine: sa.Engine, statement: str) -> None:
    with engine.connect() as connection:
        connection.execute(sa.text(statement))
