"""MariaDB servers that are a Galera cluster, with the health checks by which HAProxy chooses the writer."""

import contextlib
from pathlib import Path
import re
import shutil
import tempfile
import threading
from typing import Self

import pymysql
import sqlalchemy as sa

from tools.rig import loopback
from tools.rig.namespaces import BRIDGE_ADDRESS, Network
from tools.rig.servers import Server, path_of_servers
from tools.rig.service import ANY, run_program, until

PORT = 3306
PROVIDER = "/usr/lib/galera/libgalera_smm.so"
START_TIMEOUT = 120
CHECK_TIMEOUT = 2  # seconds, as HAProxy's interval
#: Of the package. As root, rsync would serve the joining member as nobody, which cannot write its files.
ACCOUNT = "mysql"
USER = "FLUSH PRIVILEGES;\nGRANT ALL ON *.* TO root@'%' IDENTIFIED BY '' WITH GRANT OPTION;\n"
OPTIONS = (
    "--no-defaults",
    f"--user={ACCOUNT}",
    "--bind-address=0.0.0.0",
    "--skip-name-resolve",
    "--binlog-format=ROW",
    "--innodb-autoinc-lock-mode=2",
    "--innodb-flush-log-at-trx-commit=0",
    "--max-connections=1000",
    "--wsrep-on=ON",
    f"--wsrep-provider={PROVIDER}",
    "--wsrep-cluster-name=berth",
    "--wsrep-sst-method=rsync",
)


class GaleraNode(Server):
    """One server of the cluster; ``start`` waits until it serves.

    Attributes:
        url: The SQLAlchemy URL of a user who may create databases.
    """

    def __init__(self, network: Network, name: str, names: list[str], directory: Path) -> None:
        """Describe a server of a cluster of some names; its data is in ``directory``."""
        self.name = name
        self.address = network.address(name)
        self.data = directory / name
        self.url = f"mysql+pymysql://root@{self.address}:{PORT}/mysql"
        members = ",".join(network.address(each) for each in names)
        self._own = [
            *network.inside(name),
            shutil.which("mariadbd", path=path_of_servers()) or "mariadbd",
            *OPTIONS,
            f"--datadir={self.data}",
            f"--socket={directory}/{name}.socket",
            f"--wsrep-cluster-address=gcomm://{members}",
            f"--wsrep-node-address={self.address}",
            f"--wsrep-node-name={name}",
        ]
        super().__init__(self._own, directory / f"{name}.log")

    def start(self, *, bootstrap: bool = False) -> None:
        """Start it, also again, with what it has on disk; it gets the rest from the others."""
        more = ["--wsrep-new-cluster"] if bootstrap else [f"--wsrep-start-position={self._position()}"]
        self._command = [*self._own, *more]
        super().start()
        self.wait_until(self.synced, f"{self.name} does not join the cluster", START_TIMEOUT)

    def synced(self) -> bool:
        """Return whether it is a member of the primary component, and up to date."""
        status = self._status()
        return (status.get("wsrep_ready"), status.get("wsrep_local_state")) == ("ON", "4")

    def _status(self) -> dict[str, str]:
        with contextlib.suppress(pymysql.MySQLError, OSError):
            connection = pymysql.connect(
                host=self.address,
                user="root",
                connect_timeout=CHECK_TIMEOUT,
                read_timeout=CHECK_TIMEOUT,
                write_timeout=CHECK_TIMEOUT,
            )
            with connection, connection.cursor() as cursor:
                cursor.execute("SHOW STATUS LIKE 'wsrep_%'")
                return dict(cursor.fetchall())
        return {}

    def aborted(self) -> int:
        """Return how many of its transactions lost against those of other members (1213)."""
        status = self._status()
        return sum(int(status.get(f"wsrep_local_{name}", 0)) for name in ("bf_aborts", "cert_failures"))

    def execute(self, statement: str) -> None:
        """Execute a statement on this server."""
        engine = sa.create_engine(self.url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.execute(sa.text(statement))

    def _position(self) -> str:
        """Return the last transaction that it has on disk, as the unit of MariaDB finds it at each start."""
        found = run_program([*self._own, "--wsrep-recover"], allowed=ANY)
        return re.findall(r"Recovered position: (\S+)", found)[-1]


class Galera(contextlib.ExitStack):
    """A context manager with three servers.

    Attributes:
        nodes: The servers; HAProxy prefers the first that is healthy.
        checks: The port on the address of the bridge of the health check of each.
    """

    def __init__(self, network: Network, names: list[str]) -> None:
        """Describe the cluster; it is started on entry."""
        super().__init__()
        self.nodes: list[GaleraNode] = []
        self.checks: list[int] = []
        self._network, self._names = network, names

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        directory = Path(self.enter_context(tempfile.TemporaryDirectory(prefix="berth-galera-")))
        shutil.chown(directory, ACCOUNT)
        self.nodes = [GaleraNode(self._network, name, self._names, directory) for name in self._names]
        first, *others = self.nodes
        install = ["mariadb-install-db", "--no-defaults", f"--user={ACCOUNT}", f"--datadir={first.data}"]
        more = first.data.with_suffix(".sql")
        more.write_text(USER)
        run_program(
            [*install, "--auth-root-authentication-method=normal", "--skip-test-db", f"--extra-file={more}"]
        )
        for node in self.nodes:
            self.callback(node.kill)
        first.start(bootstrap=True)
        # In order, so that its copies are those of a member that has left
        first.stop()
        for node in others:
            run_program(["cp", "-a", str(first.data), str(node.data)])
        first.start(bootstrap=True)
        for node in others:
            node.start()
        until(lambda: all(node.synced() for node in self.nodes), "The cluster is not complete", START_TIMEOUT)
        for node in self.nodes:
            self._check(node)

    def _check(self, node: GaleraNode) -> None:
        """Serve the health check of a server, as the clustercheck of operators does."""

        class Check(loopback.Handler):
            def do_GET(self) -> None:  # noqa: N802 - name of http.server
                self.send_response(200 if node.synced() else 503)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_OPTIONS = do_GET  # noqa: N815

        server = self.enter_context(loopback.Server(Check, address=BRIDGE_ADDRESS))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.callback(server.shutdown)
        self.checks.append(server.server_port)
