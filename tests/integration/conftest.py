import pytest

from tests.integration import services
from tests.integration.rabbit_cluster import rabbitmq_cluster
from tests.support import forked
from tools.rig.placement import PlacementProcess
from tools.rig.service import ServiceProcess


@pytest.fixture(scope="session", autouse=True)
def _services_are_forked():
    """Of each program that is started, two thirds of the processor's time went into imports."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServiceProcess, "launch", staticmethod(forked.launch))
        yield


@pytest.fixture(scope="session")
def rabbit(request):
    """A RabbitMQ; virtual hosts are for one test or module each."""
    with services.shared(request.config, "rabbitmq") as running:
        yield running


@pytest.fixture
def rabbit_url(rabbit):
    """Transport URL of a virtual host that nobody else uses."""
    return rabbit.vhost()


@pytest.fixture(scope="session")
def cluster():
    """A RabbitMQ of three nodes. A test that kills a node starts it again."""
    with rabbitmq_cluster() as started:
        yield started


@pytest.fixture(scope="session")
def placement_url(tmp_path_factory):
    """A Placement of this test process."""
    with PlacementProcess(tmp_path_factory.mktemp("placement") / "placement.db") as url:
        yield url


@pytest.fixture(scope="session")
def mysql_url(request):
    """A MariaDB; databases are for one test process each."""
    with services.shared(request.config, "mariadb") as url:
        yield url


@pytest.fixture(scope="session")
def postgresql_url(request):
    """A PostgreSQL; databases are for one test process each."""
    with services.shared(request.config, "postgresql") as url:
        yield url


@pytest.fixture(scope="session")
def mysql_databases(mysql_url):
    with services.databases_of(mysql_url) as make:
        yield make


@pytest.fixture(scope="session")
def postgresql_databases(postgresql_url):
    with services.databases_of(postgresql_url) as make:
        yield make


@pytest.fixture(params=services.DATABASE_KINDS)
def make_database(request, tmp_path):
    """A function from a name to the URL of an empty database, on each kind of server in turn.

    Databases on servers are made once, and are to be left empty by whoever uses them.
    """
    if request.param == "sqlite":
        return lambda name: f"sqlite:///{tmp_path}/{name}.db"
    return request.getfixturevalue(f"{request.param}_databases")
