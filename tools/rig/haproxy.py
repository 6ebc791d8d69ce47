"""HAProxy as kolla configures it: one writer of a Galera cluster with backups, and several Placements."""

from collections.abc import Sequence
from pathlib import Path
import socket

from tools.rig.servers import Server, free_port

PORTS = range(28000, 28900)
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
    bind 127.0.0.1:{mariadb}
    timeout client 3600s
    timeout server 3600s
    option tcplog
    option tcpka
    option httpchk
{writers}
listen placement
    mode http
    bind 127.0.0.1:{placement}
    option httpclose
    option forwardfor
{placements}
"""
CHECK = "check inter 2000 rise 2 fall 5"


class HaProxy(Server):
    """A HAProxy; ``start`` waits until it listens.

    Attributes:
        mariadb: The port of the writer.
        placement: The port of the Placements.
    """

    def __init__(
        self, writers: Sequence[tuple[str, int]], placements: Sequence[int], directory: Path
    ) -> None:
        """Describe one.

        Args:
            writers: Address and port of each server of a Galera cluster, and the port of its health check;
                all but the first are backups.
            placements: The ports of the Placements on loopback.
            directory: Made for its configuration and log.
        """
        directory.mkdir()
        self.mariadb, self.placement = free_port(PORTS), free_port(PORTS)
        lines = [
            f"    server db{rank} {address} {CHECK} addr 127.0.0.1 port {check}{' backup' if rank else ''}"
            for rank, (address, check) in enumerate(writers)
        ]
        others = [f"    server p{number} 127.0.0.1:{port} {CHECK}" for number, port in enumerate(placements)]
        text = CONFIGURATION.format(
            mariadb=self.mariadb,
            placement=self.placement,
            writers="\n".join(lines),
            placements="\n".join(others),
        )
        path = directory / "haproxy.cfg"
        path.write_text(text)
        super().__init__(["haproxy", "-db", "-f", path], directory / "haproxy.log")

    def start(self) -> None:
        """Start it, also again."""
        super().start()
        self.wait_until(self._listens, "HAProxy does not start")

    def _listens(self) -> bool:
        with socket.socket() as probe:
            return not probe.connect_ex(("127.0.0.1", self.mariadb))
