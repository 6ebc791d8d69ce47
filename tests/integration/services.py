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


#: Of each kind of server the commands that start it, and the variable that names one to be used as it is.
KINDS = {
    "rabbitmq": (["rabbitmq-server", "erl_call"], ""),
    "mariadb": (["mariadbd", "mariadb-install-db"], "BERTH_TEST_MYSQL_URL"),
    "postgresql": (["pg_config"], "BERTH_TEST_POSTGRES_URL"),
}


@contextlib.contextmanager
def shared(config, kind):
    """Give a RabbitMQ, or the URL of a user of a database server who may create databases, for the whole run."""
    commands, variable = KINDS[kind]
    if url := os.environ.get(variable):
        yield url
        return
    for command in commands:
        need(command)
    with shared_servers.server(config, kind) as found:
        yield found


@contextlib.contextmanager
def databases_of(server_url):
    """A function from a name to the URL of a database on the server; all of them are dropped in the end."""
    with contextlib.ExitStack() as stack:
        yield functools.cache(lambda name: stack.enter_context(servers.made_database(server_url, name)))
