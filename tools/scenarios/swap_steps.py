"""What the steps of a swap are made of: starts and stops, and what an operator looks at."""

from collections.abc import Callable
import time

from tools.rig.building import Building
from tools.rig.cloud import consumers_of
from tools.rig.swap_cloud import VHOST, SwapCloud
from tools.scenarios.transcript import Transcript

#: Seconds that anything may take that is waited for.
PATIENCE = 180

NOVA_CONF = "/etc/nova/nova.conf"
LOG = "/var/log/nova/berth-scheduler.log"
QUEUES = f"rabbitmqctl -q list_queues -p {VHOST} name consumers messages | grep -E 'name|^scheduler'"


class Steps:
    """Acts on a cloud in which instances are built, and shows what it does."""

    def __init__(self, cloud: SwapCloud, building: Building, show: Transcript, seconds: float) -> None:
        self.cloud, self.building, self.show = cloud, building, show
        self._seconds = seconds

    def start_berth(self) -> None:
        """Start Berth beside nova-scheduler."""
        self.cloud.berth.start()
        self.show.command(
            f"berth-scheduler --config-file {NOVA_CONF} &     # systemctl start berth-scheduler"
        )
        self.until_served_by(nova=1, berth=1)

    def stop_berth(self) -> None:
        """Stop Berth beside nova-scheduler."""
        self.show.command(f"kill -TERM {self.cloud.berth.pid}     # systemctl stop berth-scheduler")
        self.show.say(f"Its exit status is {self.cloud.berth.stop()}.")
        self.until_served_by(nova=1)

    def show_queues(self) -> None:
        """Show the consumers of the queues."""
        self.show.run(QUEUES)

    def show_health(self) -> None:
        """Show the state as a whole, and how old what is known of the cells is."""
        url = self.cloud.monitoring
        self.show.run(f"curl -s {url}/readyz | python3 -m json.tool | grep status | sed -n 1p")
        self.show.run(f"curl -s {url}/metrics | grep '^berth_cell_age_seconds'")

    def show_times(self, when: str, first: int) -> None:
        """Show how long answers took, from the one with this number on."""
        self.show.say(f"{when}: {self.building.times(first)}.")

    def go_on(self) -> None:
        """Let instances be built for some seconds."""
        wanted = len(self.building.answers) + 5
        time.sleep(self._seconds)
        _until(lambda: len(self.building.answers) >= wanted, "No more instances are built")

    def until_served_by(self, nova: int = 0, berth: int = 0) -> None:
        """Wait until so many schedulers of each kind take requests."""
        wanted = consumers_of(nova=nova, berth=berth)
        _until(lambda: self.cloud.consumers() == wanted, f"There are not {wanted} consumers of requests")


def _until(condition: Callable[[], bool], complaint: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(complaint)
        time.sleep(0.2)
