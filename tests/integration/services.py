"""Real services for tests: private ones, on loopback, on ports of their own, gone afterwards.

Where a service is not installed its tests are skipped; with CI set in the environment they fail.
"""

import contextlib
import functools
import os
import shutil

import pytest

from tests.support import shared_servers
from tools.rig import servers

DATABASE_KINDS = [
    "sqlite",
    pytest.param("mysql", marks=pytest.mark.mariadb),
    pytest.param("postgresql", marks=pytest.mark.postgresql),
]


#: Commands of one kind of browser; the first, which is the smallest, is what ``tools/run-tests`` installs.
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def need(*commands):
    """Return the first of these commands that is on PATH or where servers are installed.

    If none is there, skip the test, or fail it in CI.
    """
    for command in commands:
        if found := shutil.which(command, path=servers.path_of_servers()):
            return found
    missing = f"{' or '.join(commands)} is not installed"
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def browser():
    """Return the command of a browser."""
    return need(*BROWSERS)


def rabbitmq(config):
    """Give a RabbitMQ, which others may use at the same time."""
    need("rabbitmq-server")
    need("erl_call")
    return shared_servers.server(config, "rabbitmq")


@contextlib.contextmanager
def mariadb(config):
    """Give the SQLAlchemy URL of a user of a MariaDB who may create databases.

    The server that BERTH_TEST_MYSQL_URL names is used as it is; else one is started.
    """
    if url := os.environ.get("BERTH_TEST_MYSQL_URL"):
        yield url
        return
    need("mariadbd")
    need("mariadb-install-db")
    with shared_servers.server(config, "mariadb") as url:
        yield url


@contextlib.contextmanager
def postgresql(config):
    """Give the SQLAlchemy URL of a user of a PostgreSQL who may create databases.

    The server that BERTH_TEST_POSTGRES_URL names is used as it is; else one is started.
    """
    if url := os.environ.get("BERTH_TEST_POSTGRES_URL"):
        yield url
        return
    need("pg_config")
    with shared_servers.server(config, "postgresql") as url:
        yield url


@contextlib.contextmanager
def databases_of(server_url):
    """A function from a name to the URL of a database on the server; all of them are dropped in the end."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context(servers.made_database(server_url, name)))
