"""Which scheduler serves the cloud, and how one takes the place of the other."""

from collections.abc import Sequence
from pathlib import Path

from tools.openstack.layout import Layout
from tools.openstack.services import Service, Services
from tools.rig.service import command_of, environment_of_berth

#: Berth of this checkout runs on the controller of nova-scheduler, another revision on a second one.
NAMES = ("nova", "berth", "other-berth")
MODULE = "scheduler.cmd.scheduler"
QUEUE = "scheduler"
#: Seconds until a scheduler takes requests.
PATIENCE = 300


class Schedulers:
    """The schedulers of a cloud by name."""

    def __init__(self, layout: Layout) -> None:
        """Describe them; nothing is started."""
        self._layout = layout
        self._services = Services(layout)
        self.config_file = self._services.configuration.path("nova/nova.conf")

    def __getitem__(self, name: str) -> Service:
        return Service(self._layout, _service_name(name), *self._command(name))

    def _command(self, name: str) -> tuple[Sequence[str | Path], dict[str, str]]:
        if name == "nova":
            return [self._layout.program("nova-scheduler"), "--config-file", self.config_file], {}
        if name == "berth":
            return command_of(MODULE, self.config_file), environment_of_berth()
        second = self._services.configuration.path("nova/controller-2.conf")
        program = self._layout.program("berth-scheduler", name)
        return [program, "--config-file", self.config_file, "--config-file", second], {}

    def running(self) -> list[str]:
        """Return the names of the schedulers that run."""
        return [
            name for name in NAMES if _service_name(name) in self._layout.processes and self[name].running
        ]

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


def _service_name(name: str) -> str:
    return f"{name}-scheduler"
