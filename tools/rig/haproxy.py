"""HAProxy as kolla configures it: one writer of a Galera cluster with backups, and several Placements."""

from collections.abc import Sequence
from pathlib import Path
import socket

from tools.rig.namespaces import BRIDGE_ADDRESS, Network
from tools.rig.servers import Server

MARIADB, PLACEMENT = 3306, 8778
#: Seconds after which it closes a connection to MariaDB that carries nothing.
IDLE = 3600
CONFIGURATION = """\
global
    maxconn 4000
defaults
    timeout connect 10s
    timeout client 1m
    timeout server 1m
    timeout check 10s
    retries 3
listen mariadb
    mode tcp
    bind 0.0.0.0:{mariadb}
    timeout client {idle}s
    timeout server {idle}s
    option tcplog
    option tcpka
    option httpchk
{writers}
listen placement
    mode http
    bind 0.0.0.0:{placement}
    option httpclose
    option forwardfor
{placements}
"""
CHECK = "check inter 2000 rise 2 fall 5"


class HaProxy(Server):
    """A HAProxy that is a member of a network; ``start`` waits until it listens.

    Attributes:
        name: Its name in the network.
    """

    def __init__(
        self,
        network: Network,
        name: str,
        writers: Sequence[tuple[str, int]],
        placements: Sequence[int],
        directory: Path,
    ) -> None:
        """Describe one.

        Args:
            network: Where it is.
            name: Its name there.
            writers: Address and port of each server of a Galera cluster, and the port of its health check on
                the bridge; all but the first are backups.
            placements: The ports of the Placements on the bridge.
            directory: Made for its configuration and log.
        """
        directory.mkdir()
        self.name = name
        self._address = network.address(name)
        self._path = directory / "haproxy.cfg"
        check = f"{CHECK} addr {BRIDGE_ADDRESS} port"
        lines = [
            f"    server db{rank} {address} {check} {port}{' backup' if rank else ''}"
            for rank, (address, port) in enumerate(writers)
        ]
        others = [
            f"    server p{number} {BRIDGE_ADDRESS}:{port} {CHECK}" for number, port in enumerate(placements)
        ]
        self._values = {"writers": "\n".join(lines), "placements": "\n".join(others)}
        self._write(IDLE)
        super().__init__(
            [*network.inside(name), "haproxy", "-db", "-f", self._path], directory / "haproxy.log"
        )

    def start(self) -> None:
        """Start it, also again."""
        super().start()
        self.wait_until(self._listens, "HAProxy does not start")

    def restart(self, idle: int) -> None:
        """Restart it; it closes connections to MariaDB that carry nothing for so many seconds."""
        self.stop()
        self._write(idle)
        self.start()

    def _write(self, idle: int) -> None:
        text = CONFIGURATION.format(mariadb=MARIADB, placement=PLACEMENT, idle=idle, **self._values)
        self._path.write_text(text)

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return not probe.connect_ex((self._address, MARIADB))
