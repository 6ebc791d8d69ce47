"""Which scheduler serves the cloud, and how one takes the place of the other."""

from tools.openstack.layout import Layout
from tools.openstack.services import SCHEDULERS, Service, Services

QUEUE = "scheduler"
#: Seconds until a scheduler takes requests.
PATIENCE = 300


class Schedulers:
    """The schedulers of a cloud by name: nova, berth, other-berth."""

    def __init__(self, layout: Layout) -> None:
        """Describe them; nothing is started."""
        self._services = Services(layout)
        self.config_file = self._services.configuration.path("nova/nova.conf")

    def __getitem__(self, name: str) -> Service:
        return self._services[f"{name}-scheduler"]

    def running(self) -> list[str]:
        """Return the names of the schedulers that run."""
        return [name.removesuffix("-scheduler") for name in SCHEDULERS if self._services[name].running]

    def start(self, name: str) -> None:
        """Start a scheduler beside those that run, and wait until it takes requests.

        Raises:
            RuntimeError: It has ended, or does not take requests in time.
        """
        service = self[name]
        if not service.running:
            before = self.consumers()
            service.start()
            service.wait_until(lambda: self.consumers() > before, f"{name} takes no requests", PATIENCE)

    def replace(self, name: str) -> None:
        """Let a scheduler serve in the place of those that run, as the documents say: it starts first."""
        self.start(name)
        for each in self.running():
            if each != name:
                self[each].stop()

    def consumers(self) -> int:
        """Return how many processes of schedulers take requests."""
        return self._services.rabbit.consumers("nova", QUEUE)
