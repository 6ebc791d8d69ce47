import pytest

from tests.integration import services


@pytest.fixture(scope="session")
def rabbit():
    """A RabbitMQ of this test process."""
    with services.rabbitmq() as running:
        yield running


@pytest.fixture
def rabbit_url(rabbit):
    """Transport URL of a virtual host that nobody else uses."""
    return rabbit.vhost()
