"""TLS to the databases and to Placement; that to the broker is in ``tests/integration/rpc/test_tls.py``."""

import pathlib
import shutil
import tempfile
import uuid

from keystoneauth1 import exceptions
from oslo_db.exception import DBConnectionError
import pytest
import requests
import sqlalchemy as sa

from conductor_client.client import SchedulerClient
from scheduler import conf as options
from scheduler.nova_db.engines import Engines
from scheduler.placement.session import make_adapter
from tests.integration import services
from tests.integration.certificates import make_certificates
from tools.rig import servers
from tools.rig.load import BootRequest, ask, make_requests
from tools.rig.placement import PlacementProcess
from tools.rig.providers import HEADERS, database_url
from tools.rig.world import Daemon, RunningWorld, World

pytestmark = [pytest.mark.mariadb, pytest.mark.postgresql, pytest.mark.slow]

#: Whether the connection that asks is encrypted.
ENCRYPTED = {
    "mysql": "SELECT variable_value FROM information_schema.session_status WHERE variable_name = 'SSL_CIPHER'",
    "postgresql": "SELECT cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()",
}


class Authority:
    """A directory with the certificates of an authority."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        make_certificates(self.directory)
        self.ca_file = str(self.directory / "ca.pem")
        self.certificate, self.key = str(self.directory / "server.pem"), str(self.directory / "server.key")
        # Placement and PostgreSQL each want them in a file of their own
        self.both = self.directory / "both.pem"
        self.both.write_text(pathlib.Path(self.key).read_text() + pathlib.Path(self.certificate).read_text())


@pytest.fixture(scope="module")
def authority():
    """Where other users may look into: PostgreSQL does not run as root."""
    with tempfile.TemporaryDirectory(prefix="berth-tls-") as directory:
        pathlib.Path(directory).chmod(0o755)
        made = Authority(directory)
        if user := servers.postgresql_user():
            shutil.chown(made.key, user)
        yield made


@pytest.fixture(scope="module")
def stranger(tmp_path_factory):
    """An authority that signed nothing here."""
    return Authority(tmp_path_factory.mktemp("stranger"))


@pytest.fixture(scope="module")
def mariadb(authority):
    services.need("mariadbd")
    tls = [
        f"--ssl-cert={authority.certificate}",
        f"--ssl-key={authority.key}",
        "--require-secure-transport=ON",
    ]
    with servers.mariadb(tcp=True, options=[*servers.VOLATILE, *tls]) as server:
        yield server


@pytest.fixture(scope="module")
def postgresql(authority):
    services.need("pg_config")
    tls = {"ssl": "on", "ssl_cert_file": authority.certificate, "ssl_key_file": authority.key}
    with servers.postgresql(
        tcp=True, options=[word for name, value in tls.items() for word in ("-c", f"{name}={value}")]
    ) as server:
        yield server


def over_tls(server, ca_file, database=None):
    """The URL of a database on a server, as an operator writes it."""
    url = sa.make_url(server.url)
    if url.get_backend_name() == "mysql":
        query = {"ssl_ca": ca_file}
    else:
        query = {"sslmode": "verify-full", "sslrootcert": ca_file}
    url = url.set(host="localhost", port=server.port, query=query, database=database or url.database)
    return url.render_as_string(hide_password=False)


def load(directory, text):
    path = directory / "tls.conf"
    path.write_text(text)
    return options.load(["--config-file", str(path)])


@pytest.mark.parametrize("kind", ENCRYPTED)
class TestDatabases:
    @pytest.fixture
    def ask(self, kind, request, tmp_path):
        """A function: whether the API database is read over TLS, if this authority is trusted."""
        server = request.getfixturevalue({"mysql": "mariadb"}.get(kind, kind))

        def ask(authority):
            url = over_tls(server, authority.ca_file)
            engines = Engines(load(tmp_path, f"[api_database]\nconnection = {url}\n"))
            try:
                with engines.api_connection() as connection:
                    return bool(connection.execute(sa.text(ENCRYPTED[kind])).scalar())
            finally:
                engines.dispose()

        return ask

    def test_a_certificate_of_the_known_authority_is_accepted(self, ask, authority):
        assert ask(authority)

    def test_a_certificate_of_another_authority_is_refused(self, ask, stranger):
        with pytest.raises(DBConnectionError, match="certificate verify failed"):
            ask(stranger)


PLACEMENT = """\
[placement]
auth_type = admin_token
endpoint = {url}
token = admin
cafile = {ca_file}
"""


@pytest.fixture(scope="module")
def placement(authority, tmp_path_factory):
    """URL and database of a Placement that speaks TLS only."""
    database = tmp_path_factory.mktemp("placement") / "placement.db"
    with PlacementProcess(database, certificate=authority.both) as url:
        yield url, database


class TestPlacement:
    def ask(self, directory, placement, authority):
        adapter = make_adapter(load(directory, PLACEMENT.format(url=placement[0], ca_file=authority.ca_file)))
        try:
            return adapter.get("/").json()["versions"][0]["id"]
        finally:
            adapter.session.session.close()

    def test_a_certificate_of_the_known_authority_is_accepted(self, tmp_path, placement, authority):
        assert self.ask(tmp_path, placement, authority) == "v1.0"

    def test_a_certificate_of_another_authority_is_refused(self, tmp_path, placement, stranger):
        with pytest.raises(exceptions.SSLError, match="certificate verify failed"):
            self.ask(tmp_path, placement, stranger)


def made(url):
    """Create the database of a URL, and return the URL."""
    parsed = sa.make_url(url)
    maintenance = "postgres" if parsed.get_backend_name() == "postgresql" else "mysql"
    engine = sa.create_engine(
        parsed.set(database=maintenance), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool
    )
    with engine.connect() as connection:
        connection.execute(sa.text(f"CREATE DATABASE {parsed.database}"))
    return url


@pytest.mark.rabbitmq
def test_a_daemon_that_reaches_everything_over_tls(
    tmp_path, rabbit, mariadb, postgresql, placement, authority
):
    """One cell is on PostgreSQL, all other databases on MariaDB."""
    ask_placement(placement, authority)  # creates the tables
    url, database = placement
    where = {"api": mariadb, "cell0": mariadb, "cell1": mariadb, "cell2": postgresql}
    urls = {name: made(over_tls(server, authority.ca_file, f"tls_{name}")) for name, server in where.items()}
    world = World(
        6,
        urls=urls | {"placement": database_url(database)},
        placement=url,
        options=f"[placement]\ncafile = {authority.ca_file}\n",
        daemons=(Daemon(defaults=f"state_path = {tmp_path}\n"),),
    )
    with RunningWorld(world, tmp_path, rabbit) as cloud:
        (request,) = make_requests(1, 1)
        uuids = [str(uuid.uuid4()) for _ in range(6)]
        request = BootRequest(uuids, request.flavor, group=uuids)
        answer = ask(SchedulerClient(cloud.bus, timeout=60), request)
        assert answer.error == ""
        chosen = [selections[0] for selections in answer.selections]
        assert {selection.service_host for selection in chosen} == {host.name for host in cloud.fleet.hosts}
        log = cloud.scheduler.log.read_text()
        assert " WARNING " not in log
        assert " ERROR " not in log


def ask_placement(placement, authority):
    return requests.get(f"{placement[0]}/traits", headers=HEADERS, verify=authority.ca_file, timeout=60)
