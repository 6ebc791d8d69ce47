"""The image of the Dockerfile, built without a registry, started, and stopped under load; and kolla's.

The base is a system of Debian, made from its packages. kolla's image is its own Dockerfile of nova-scheduler
with the override of deploy/kolla, on a base with kolla's scripts; nova itself is not in it. The wheel is
installed under each Python that is given, and compared with that of the source archive. Needs root.
"""

import argparse
from collections.abc import Sequence
import math
import os
from pathlib import Path
import signal
import time

from tools.rig import command, debian, packages
from tools.rig.images import Container
from tools.rig.load import FEWEST_HOSTS
from tools.rig.world import RunningWorld
from tools.scenarios import image_of_kolla, image_wheel
from tools.scenarios.controller_steps import nova_conf, world
from tools.scenarios.image_steps import MONITORING, Image

PARTS = ("image", "wheel", "kolla")


def build_and_run(steps: Image) -> None:
    """Build the image, start it, ask for its health, stop it under load."""
    show, options = steps.show, steps.options
    show.step(f"1 Build the image on {options.release}")
    source = debian.copy_source(steps.directory / "source")
    steps.build("localhost/berth-scheduler", source, steps.base, PBR_VERSION="0.1.0")
    configuration = steps.images.configuration("localhost/berth-scheduler")
    for name in ("User", "Entrypoint", "Cmd", "StopSignal", "Healthcheck"):
        show.say(f"{name}: {configuration.get(name)}")
    with steps.images.mounted("localhost/berth-scheduler") as root:
        log = steps.directory / "container.log"
        binds = {steps.configuration: "/etc/nova"}
        container = Container(root, configuration, log, binds, OS_BERTH__MONITORING_LISTEN=MONITORING)
        show.step("2 Start it, and ask for its health")
        steps.serve(container)
        try:
            _, *check = configuration["Healthcheck"]["Test"]
            container.run(check)
            show.say("Its health check succeeds.")
            steps.carries_out_plans(container, "python")
            steps.load().__enter__()
            steps.answers(options.seconds, "Under load")
            _stop(steps, container)
            steps.serve(container)
            steps.answers(options.seconds, "After the next start")
            _freeze(steps, container, check)
            steps.answers(options.seconds, "After it was frozen")
            _compare(steps)
        finally:
            container.stop()


def _stop(steps: Image, container: Container) -> None:
    steps.show.step("3 SIGTERM to process 1 under load")
    started = time.monotonic()
    steps.end(container, "The container")
    steps.show.say(f"It ended after {time.monotonic() - started:.1f} s.")
    steps.expect(0, container.status, "Exit status")


def _freeze(steps: Image, container: Container, check: Sequence[str]) -> None:
    steps.show.step("4 The health check of a frozen container")
    children = Path(f"/proc/{container.init()}/task/{container.init()}/children").read_text().split()
    frozen = [container.init(), *map(int, children)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        failed = "timed out" in container.run(check, allowed=range(256))
        steps.expect(True, failed, "The health check fails by its timeout")
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)


def _compare(steps: Image) -> None:
    steps.show.step("5 What became of all requests")
    steps.building.stop()
    steps.compare()


def main(arguments: list[str] | None = None) -> int:
    """Run all steps; return 1 if something is not as promised."""
    options = _parse(arguments)
    debian.need("mmdebstrap", "systemd-nspawn", "nsenter", "buildah")
    with command.running("image", options.directory) as directory:
        with RunningWorld(world(options.hosts), directory) as cloud:
            steps = Image(options, directory, cloud, nova_conf(cloud, MONITORING))
            steps.images.import_base(debian.bootstrap(options.machines, options.release, "image"), steps.base)
            chosen = options.only or PARTS
            if "image" in chosen:
                build_and_run(steps)
            if "wheel" in chosen or "kolla" in chosen:
                image_wheel.build(steps)
            if "wheel" in chosen:
                image_wheel.install(steps)
            if "kolla" in chosen:
                image_of_kolla.run(steps)
        for line in steps.problems:
            steps.show.say(f"NOT AS PROMISED: {line}")
        if options.output:
            steps.show.write(options.output)
    return 1 if steps.problems else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/berth image", __doc__)
    parser.share(hosts=100, callers=4, seconds=15.0, seed=1, output=None, directory=None)
    parser.add("--release", "bookworm", "release of Debian of the base", choices=sorted(packages.RELEASES))
    parser.add("--only", None, "this part; may be repeated", action="append", choices=PARTS)
    parser.add("--machines", command.MACHINES, "where systems, wheels and images are kept", type=Path)
    parser.add("--python", [], "more Pythons to install the wheel with", type=Path, nargs="+", metavar="FILE")
    parser.add("--kolla", image_of_kolla.VERSION, "version of kolla, whose templates and scripts are used")
    options = parser.parse_args(arguments)
    parser.bound(options, hosts=(FEWEST_HOSTS, math.inf))
    return options
