"""Three nodes of RabbitMQ that are a cluster, each with an address of its own; also of another release."""

from collections.abc import Sequence
from pathlib import Path
import secrets

from tools.rig.namespaces import Network
from tools.rig.servers import RabbitNode

PORT, DIST_PORT = 5672, 25672
CONFIGURATION = """\
listeners.tcp.1 = {address}:{port}
loopback_users = none
cluster_partition_handling = pause_minority
# A fault of seconds would otherwise end before a node regards another one as lost and pauses
net_ticktime = 5
cluster_formation.peer_discovery_backend = classic_config
cluster_name = berth
"""
#: RabbitMQ 4 has no such delay any more.
NO_DELAY = """\
cluster_formation.randomized_startup_delay_range.min = 0
cluster_formation.randomized_startup_delay_range.max = 1
"""
#: Runs a program with the files of another system; the mounts end with it.
ENTER = """\
system=$1 data=$2
shift 2
mount -t proc proc "$system/proc"
mount --rbind /dev "$system/dev"
mkdir -p "$system$data"
mount --bind "$data" "$system$data"
exec chroot "$system" "$@"
"""
#: One scheduler thread a node: three nodes share few processors.
ERLANG = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"


class Member(RabbitNode):
    """One node. ``system`` is a directory of a system whose RabbitMQ it runs; None: that of this machine."""

    def __init__(
        self, network: Network, name: str, names: Sequence[str], directory: Path, system: Path | None
    ) -> None:
        more = CONFIGURATION.format(address=network.address(name), port=PORT)
        more += NO_DELAY if system is None else ""
        for number, each in enumerate(names, 1):
            node = f"rabbit@{network.address(each)}"
            more += f"cluster_formation.classic_config.nodes.{number} = {node}\n"
        super().__init__(directory / name, PORT, DIST_PORT, more, ERLANG)
        self.address = network.address(name)
        self.name = f"rabbit@{self.address}"
        if system is None:
            self._command = [*network.inside(name), *self._command]
        else:
            mounts = ("unshare", "--mount", "--propagation=private")
            within = (*mounts, "sh", "-ec", ENTER, "sh", str(system), str(directory))
            self._command = [*network.inside(name), *within, *self._command]
        self._environment = {**(self._environment or {}), **self.variables}

    @property
    def variables(self) -> dict[str, str]:
        """The variables of the environment with which its programs work on it."""
        return super().variables | {"RABBITMQ_USE_LONGNAME": "true"}

    def pauses(self) -> int:
        """Return how often it has stopped serving because it did not see most of the others."""
        log = self._directory / f"{self.name}.log"
        return log.read_text().count("Cluster minority/secondary status detected") if log.exists() else 0


def write_cookie(directory: Path) -> None:
    """Write what nodes know each other by; those that begin at once would each draw their own."""
    cookie = directory / ".erlang.cookie"
    cookie.write_text(secrets.token_hex(16))
    cookie.chmod(0o400)


class Brokers:
    """The nodes of a cluster, as one RabbitMQ."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = members

    def vhost(self) -> str:
        """Return the transport URL of all nodes; they have one virtual host."""
        hosts = ",".join(f"{each.user}:{each.user}@{each.address}:{PORT}" for each in self._members)
        return f"rabbit://{hosts}//"

    def messages(self, _vhost: str, queue: str) -> int:
        """Return how many messages of a queue no consumer has, by the first node that answers."""
        for member in self._members:
            if member.accepts():
                with member.connect() as connection:
                    return connection.channel().queue_declare(queue, passive=True).message_count
        raise RuntimeError("No node of RabbitMQ answers")
