"""What the steps with images are made of."""

import argparse
from collections.abc import Mapping
import hashlib
import os
from pathlib import Path
import signal
import time

from tools.rig import debian, packages
from tools.rig.building import Building
from tools.rig.debian import until
from tools.rig.images import PIP_CONFIGURATION, Container, Images
from tools.rig.world import RunningWorld
from tools.scenarios.controller_steps import api_rows
from tools.scenarios.transcript import Transcript

#: As the Dockerfile sets it; health checks ask there.
MONITORING = "127.0.0.1:9812"
#: Seconds until a container serves, and until it has ended.
START, STOP = 150, 190


class Image:
    """What the steps need: images, a cloud, a load, and what was not as promised."""

    building: Building

    def __init__(
        self, options: argparse.Namespace, directory: Path, cloud: RunningWorld, nova_conf: str
    ) -> None:
        """Write the nova.conf of containers; nothing is built yet."""
        self.nova_conf = nova_conf
        self.options, self.directory, self.cloud = options, directory, cloud
        self._loads = 0
        self._earlier: set[str] = set()
        self.images = Images(options.machines / "images")
        self.show = Transcript()
        self.problems: list[str] = []
        self.base = f"localhost/berth-base:{options.release}"
        self.configuration = directory / "nova"
        self.configuration.mkdir()
        (self.configuration / "nova.conf").write_text(nova_conf)
        (self.configuration / "nova.conf").chmod(0o644)
        (directory / "pip.conf").write_text(PIP_CONFIGURATION)
        wheels = debian.wheels(options.machines, packages.RELEASES[options.release])
        self.volumes = {wheels: "/wheels", directory / "pip.conf": "/etc/pip.conf"}

    def expect(self, wanted: object, found: object, what: str) -> None:
        """Show something, and note a problem if it is not as wanted."""
        self.show.say(f"{what}: {found}")
        if found != wanted:
            self.problems.append(f"{what}: {found}, not {wanted}")

    def build(self, tag: str, context: Path, base: str, **arguments: str) -> None:
        """Build an image, unless there is one of the same files on the same base; show how long it took."""
        digest = digest_of(context, self.images.identifier(base), arguments)
        if self.images.built_of(tag) == digest:
            self.show.say(f"{tag} has the same files as in an earlier run and was not built again.")
            return
        started = time.monotonic()
        self.images.build(tag, context, {"BASE": base, **arguments}, self.volumes, digest)
        self.show.say(f"{tag} was built in {time.monotonic() - started:.0f} s.")

    def serve(self, container: Container) -> None:
        """Start a container and wait until it is ready."""
        container.start()
        ready = "The daemon takes requests"
        lives = container.text().count(ready) if container.log.exists() else 0
        container.wait_for_line(ready, START, lives + 1)

    def end(self, container: Container, what: str) -> None:
        """Send SIGTERM to process 1 of a container, and wait until it has ended."""
        os.kill(container.init(), signal.SIGTERM)
        until(lambda: container.status is not None, f"{what} does not end", STOP)

    def carries_out_plans(self, container: Container, python: str) -> None:
        """Check that plans can be carried out in a container: the option, and the SDK of OpenStack."""
        offered = "--run" in container.run(["berth-plan", "drain", "--help"])
        self.expect(True, offered, "berth-plan drain --help offers --run")
        version = container.run([python, "-c", "import openstack.version as v; print(v.__version__)"]).strip()
        self.show.say(f"openstacksdk {version} can be imported.")

    def load(self) -> Building:
        """Return new callers, which ask for hosts for other instances than those before."""
        options, self._loads = self.options, self._loads + 1
        if self._loads > 1:
            self._earlier |= {uuid for call in self.building.calls for uuid in call.request.uuids}
        self.building = Building(
            self.cloud,
            self.cloud.bus,
            options.callers,
            seed=options.seed + self._loads,
            api=api_rows(self.cloud),
        )
        self.cloud.callback(self.building.give_up)
        return self.building

    def compare(self) -> None:
        """Compare the answers to the callers, which have stopped, with Placement."""
        found = self.building.problems(self._earlier)
        times = self.building.times()
        self.show.say(f"{times}. Compared with Placement, {len(found)} are lost, doubled or wrong.")
        self.problems += found

    def answers(self, seconds: float, what: str) -> None:
        """Let instances be built for a while."""
        first = len(self.building.answers)
        time.sleep(seconds)
        until(lambda: len(self.building.answers) >= first + 5, "No more instances are built", START)
        self.show.say(f"{what}: {self.building.times(first)}.")


def digest_of(context: Path, base: str, arguments: Mapping[str, str]) -> str:
    """Return a digest of what an image is made of: files of its directory, ID of its base, arguments."""
    found = (packages.digest(context), (context / "Dockerfile").read_text(), base, sorted(arguments.items()))
    return hashlib.sha256(repr(found).encode()).hexdigest()
