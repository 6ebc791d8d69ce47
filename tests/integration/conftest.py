import contextlib

import pytest

from tests.integration import databases, services


@pytest.fixture(scope="session")
def rabbit():
    """A RabbitMQ of this test process."""
    with services.rabbitmq() as running:
        yield running


@pytest.fixture
def rabbit_url(rabbit):
    """Transport URL of a virtual host that nobody else uses."""
    return rabbit.vhost()


@pytest.fixture(scope="session")
def mysql_url():
    """A MariaDB of this test process."""
    with databases.mariadb() as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_url():
    """A PostgreSQL of this test process."""
    with databases.postgresql() as url:
        yield url


@pytest.fixture(params=databases.KINDS)
def make_database(request, tmp_path):
    """A function from a name to the URL of an empty database, on each kind of server in turn."""
    fixture = {"mariadb": "mysql_url", "postgresql": "postgresql_url"}.get(request.param)
    server = request.getfixturevalue(fixture) if fixture else None
    with contextlib.ExitStack() as stack:
        yield lambda name: stack.enter_context(databases.database(server, name, tmp_path))
