"""Database servers for tests: private ones on loopback, or those that the environment names.

A server given by its environment variable is used as it is; else one is started; without the programs the
test is skipped, unless CI is set: there a missing server is a failure.
"""

import contextlib
import functools
import getpass
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time

import pytest
import sqlalchemy as sa

from tests.integration import services

KINDS = [
    "sqlite",
    pytest.param("mysql", marks=pytest.mark.mariadb),
    pytest.param("postgresql", marks=pytest.mark.postgresql),
]


@contextlib.contextmanager
def mariadb():
    """A server; the SQLAlchemy URL of a user who may create databases."""
    if url := os.environ.get("BERTH_TEST_MYSQL_URL"):
        yield url
        return
    services.need("mariadbd")
    services.need("mariadb-install-db")
    with _directory(None) as directory:
        common = ["--no-defaults", f"--datadir={directory}/data", f"--user={getpass.getuser()}"]
        _make(["mariadb-install-db", *common, "--auth-root-authentication-method=normal", "--skip-test-db"])
        socket = f"{directory}/socket"
        server = [
            "mariadbd",
            *common,
            f"--socket={socket}",
            "--skip-networking",
            "--innodb-flush-method=nosync",
        ]
        with _running(server, f"mysql+pymysql://root@localhost/mysql?unix_socket={socket}") as url:
            yield url


@contextlib.contextmanager
def postgresql():
    """A server; the SQLAlchemy URL of a user who may create databases."""
    if url := os.environ.get("BERTH_TEST_POSTGRES_URL"):
        yield url
        return
    services.need("pg_config")
    programs = subprocess.check_output(["pg_config", "--bindir"], text=True).strip()
    user = "postgres" if os.geteuid() == 0 else None  # it refuses to run as root
    with _directory(user) as directory:
        data = ["-D", f"{directory}/data"]
        _make([f"{programs}/initdb", *data, "-A", "trust", "-U", "berth", "-N"], user)
        server = [f"{programs}/postgres", *data, "-k", directory, "-F", "-c", "listen_addresses="]
        with _running(server, f"postgresql+psycopg2://berth@/postgres?host={directory}", user) as url:
            yield url


@contextlib.contextmanager
def _directory(user):
    with tempfile.TemporaryDirectory() as directory:
        if user:
            shutil.chown(directory, user)
        yield directory


def _make(command, user=None):
    subprocess.run(command, user=user, cwd="/", check=True, capture_output=True)


@contextlib.contextmanager
def _running(command, url, user=None):
    with subprocess.Popen(command, user=user, cwd="/", stderr=subprocess.DEVNULL) as process:
        try:
            _wait_for(url, process)
            yield url
        finally:
            process.send_signal(signal.SIGQUIT)  # there is nothing to be saved


def _wait_for(url, process):
    engine = sa.create_engine(url, poolclass=sa.NullPool)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(sa.exc.OperationalError):
            _execute(engine, "SELECT 1")
            return
        time.sleep(0.1)
    pytest.fail(f"{process.args[0]} does not start")


@contextlib.contextmanager
def database(server, name):
    """An empty database on a server; its URL."""
    name = f"{name}_{random.randrange(10**9)}"
    engine = sa.create_engine(server, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    _execute(engine, f"CREATE DATABASE {name}")
    yield sa.make_url(server).set(database=name).render_as_string(hide_password=False)
    force = " WITH (FORCE)" if engine.name == "postgresql" else ""
    _execute(engine, f"DROP DATABASE {name}{force}")


@contextlib.contextmanager
def kept(server):
    """A function from a name to the URL of a database on the server; all of them are dropped in the end."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context(database(server, name)))


def _execute(engine, statement):
    with engine.connect() as connection:
        connection.execute(sa.text(statement))
