"""The image of the Dockerfile, built without a registry, started, and stopped under load; and kolla's.

The base is a system of Debian, made from its packages. kolla's image is its own Dockerfile of nova-scheduler
with the override of deploy/kolla, on a base with kolla's scripts; nova itself is not in it. The wheel is
installed under each Python that is given, and compared with that of the source archive. Needs root.
"""

import argparse
from collections.abc import Iterator, Sequence
import contextlib
import json
import math
import os
from pathlib import Path
import shutil
import signal
import sys
import tarfile
import time

import jinja2

from tools.rig import command, debian, packages
from tools.rig.images import Container, Images
from tools.rig.load import FEWEST_HOSTS
from tools.rig.service import ANY, ROOT, run_program, until
from tools.rig.world import RunningWorld
from tools.scenarios.package import share_machines
from tools.scenarios.steps import Steps, Transcript, world

#: As the Dockerfile sets it; health checks ask there.
MONITORING = "127.0.0.1:9812"
#: Seconds until a container serves, and until it has ended.
START, STOP = 150, 190
READY = "The daemon takes requests"
#: pip finds what it installs in a directory that is mounted there.
PIP_CONFIGURATION = "[global]\nno-index = true\nfind-links = /wheels\n"
#: Commands that must start; each imports what it needs.
COMMANDS = ("berth-scheduler", "berth-router", "berth-status", "berth-explain", "berth-plan", "berth-shadow")
BUILDERS = ("build", "twine", "pbr", "setuptools", "wheel")

KOLLA = "20.0.0"
IMAGE = "localhost/berth-scheduler"
NOVA_BASE, NOVA_SCHEDULER = "localhost/nova-base:berth", "localhost/nova-scheduler:berth"
#: What kolla's images "base" and "nova-base" do, as far as the scripts of a container need it. No nova.
DOCKERFILE = """\
ARG BASE
FROM $BASE
RUN apt-get update && apt-get install -y --no-install-recommends sudo procps iproute2
RUN groupadd --gid 42400 kolla && groupadd --gid 42436 nova \\
    && useradd -l -M --shell /usr/sbin/nologin --uid 42436 --gid 42436 -G kolla nova \\
    && mkdir -p /var/lib/kolla/config_files /var/lib/kolla/venv/bin /var/log/kolla /etc/nova /var/lib/nova \\
    && chown nova: /var/lib/nova && chown root:kolla /var/log/kolla && chmod 2775 /var/log/kolla \\
    && ln -s /bin/false /var/lib/kolla/venv/bin/nova-scheduler
COPY scripts/ /usr/local/bin/
COPY sudoers /etc/sudoers
RUN chmod 755 /usr/local/bin/kolla_* && chmod 440 /etc/sudoers && touch /usr/local/bin/kolla_nova_extend_start
ENV PATH=/var/lib/kolla/venv/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
ENV KOLLA_BASE_DISTRO=debian KOLLA_BASE_ARCH=x86_64 PYTHON_VERSION=3
CMD ["kolla_start"]
"""
#: kolla's name of each script in the image.
SCRIPTS = {
    "base/set_configs.py": "kolla_set_configs",
    "base/start.sh": "kolla_start",
    "base/copy_cacerts.sh": "kolla_copy_cacerts",
    "base/install_projects.sh": "kolla_install_projects",
    "nova/nova-base/extend_start.sh": "kolla_extend_start",
    "base/healthcheck_port": "healthcheck_port",
}
#: As kolla-ansible writes it for the container nova_scheduler.
CONFIG = {
    "command": "nova-scheduler",
    "config_files": [
        {
            "source": "/var/lib/kolla/config_files/nova.conf",
            "dest": "/etc/nova/nova.conf",
            "owner": "nova",
            "perm": "0600",
        }
    ],
    "permissions": [{"path": "/var/log/kolla/nova", "owner": "nova:nova", "recurse": True}],
}
#: As the page on deployment tools starts it beside nova-scheduler.
SHADOW = (
    "sudo -E kolla_set_configs"
    " && exec berth-shadow --config-file /etc/nova/nova.conf run --directory /var/lib/nova"
)
#: What the report says if Berth found a host for each request.
AGREED = "none refused that nova-scheduler served"
REPORT = ("berth-shadow", "--config-file", "/etc/nova/nova.conf", "report", "--directory", "/var/lib/nova")


class Image(Steps):
    """What the steps need: images, a cloud, a load, and what was not as promised."""

    def __init__(self, options: argparse.Namespace, directory: Path, cloud: RunningWorld) -> None:
        """Import the base, and write what containers mount."""
        super().__init__(cloud, Transcript(), options)
        self.directory = directory
        self.images = Images(options.machines / "images")
        self.base = f"localhost/berth-base:{options.release}"
        self.images.import_base(debian.bootstrap(options.machines, options.release, "image"), self.base)
        nova_conf = self.nova_conf(MONITORING)
        for name, file, text in (
            ("nova", "nova.conf", nova_conf),
            ("kolla_config", "nova.conf", nova_conf),
            ("kolla_config", "config.json", json.dumps(CONFIG)),
            ("pip", "pip.conf", PIP_CONFIGURATION),
        ):
            (directory / name).mkdir(exist_ok=True)
            (directory / name / file).write_text(text)
            (directory / name / file).chmod(0o644)
        wheels = debian.wheels(options.machines, packages.RELEASES[options.release])
        self.volumes = {wheels: "/wheels", directory / "pip" / "pip.conf": "/etc/pip.conf"}

    def build(self, tag: str, context: Path, base: str, **arguments: str) -> None:
        """Build an image, and show how long it took."""
        started = time.monotonic()
        self.images.build(tag, context, {"BASE": base, **arguments}, self.volumes)
        self.show.say(f"{tag} was built in {time.monotonic() - started:.0f} s.")

    @contextlib.contextmanager
    def container(
        self, tag: str, binds: dict[Path, str], ready: str = READY, **more: str
    ) -> Iterator[Container]:
        """Start a container of an image, and wait until it says that it is ready; it is stopped in the end.

        Args:
            tag: The image.
            binds: What is mounted, and where.
            ready: What it says.
            more: Variables, and a command of the shell by the name ``line``.
        """
        configuration = self.images.configuration(tag) | {"User": "nova"}
        if line := more.pop("line", ""):
            configuration["Cmd"] = ["bash", "-c", line]
        with self.images.mounted(tag) as root:
            log = self.directory / f"{tag.partition('/')[2].partition(':')[0]}-{len(line)}.log"
            container = Container(root, configuration, log, binds, **more)
            self.start(container, ready)
            try:
                yield container
            finally:
                container.stop()

    def start(self, container: Container, ready: str = READY) -> None:
        """Start a container, also again, and wait until it is ready."""
        container.start()
        lives = container.text().count(ready) if container.log.exists() else 0
        container.wait_for_line(ready, START, lives + 1)

    def end(self, container: Container, what: str) -> None:
        """Send SIGTERM to process 1 of a container, and wait until it has ended."""
        started = time.monotonic()
        os.kill(container.init(), signal.SIGTERM)
        until(lambda: container.status is not None, f"{what} does not end", STOP)
        self.show.say(f"{what} ended after {time.monotonic() - started:.1f} s.")
        self.expect(0, container.status, f"Exit status of {what} after SIGTERM")

    def carries_out_plans(self, container: Container, python: str) -> None:
        """Check that plans can be carried out in a container: the option, and the SDK of OpenStack."""
        offered = "--run" in container.run(["berth-plan", "drain", "--help"])
        self.expect(True, offered, "berth-plan drain --help offers --run")
        version = container.run([python, "-c", "import openstack.version as v; print(v.__version__)"]).strip()
        self.show.say(f"openstacksdk {version} can be imported.")


def build_and_run(steps: Image) -> None:
    """Build the image, start it, ask for its health, stop it under load."""
    show, seconds = steps.show, steps.options.seconds
    show.step(f"1 Build the image on {steps.options.release}")
    source = debian.copy_source(steps.directory / "source")
    steps.build(IMAGE, source, steps.base, PBR_VERSION="0.1.0")
    configuration = steps.images.configuration(IMAGE)
    for name in ("User", "Entrypoint", "Cmd", "StopSignal", "Healthcheck"):
        show.say(f"{name}: {configuration.get(name)}")
    show.step("2 Start it, and ask for its health")
    binds = {steps.directory / "nova": "/etc/nova"}
    with steps.container(IMAGE, binds, OS_BERTH__MONITORING_LISTEN=MONITORING) as container:
        _, *check = configuration["Healthcheck"]["Test"]
        container.run(check)
        show.say("Its health check succeeds.")
        steps.carries_out_plans(container, "python")
        with steps.load():
            steps.go_on("Under load", seconds)
            show.step("3 SIGTERM to process 1 under load")
            steps.end(container, "The container")
            steps.start(container)
            steps.go_on("After the next start", seconds)
            show.step("4 The health check of a frozen container")
            _freeze(steps, container, check)
            steps.go_on("After it was frozen", seconds)
        show.step("5 What became of all requests")
        steps.compare()


def _freeze(steps: Image, container: Container, check: Sequence[str]) -> None:
    children = Path(f"/proc/{container.init()}/task/{container.init()}/children").read_text().split()
    frozen = [container.init(), *map(int, children)]
    for pid in frozen:
        os.kill(pid, signal.SIGSTOP)
    try:
        failed = "timed out" in container.run(check, allowed=ANY)
        steps.expect(True, failed, "The health check fails by its timeout")
    finally:
        for pid in frozen:
            os.kill(pid, signal.SIGCONT)


def build_wheel(steps: Image) -> None:
    """Build wheel and source archive, and check them."""
    steps.show.step("6 The wheel and the source archive")
    clone, dist, unpacked = (steps.directory / name for name in ("clone", "dist", "unpacked"))
    run_program(["git", "clone", "-q", str(ROOT), str(clone)])
    stamp = run_program(["git", "log", "-1", "--format=%ct"], cwd=ROOT).strip()
    python = _environment(steps.directory / "tools", Path(sys.executable))
    run_program([python, "-m", "pip", "install", "-q", *BUILDERS])
    build = ["env", f"SOURCE_DATE_EPOCH={stamp}", python, "-m", "build", "--no-isolation", "--outdir"]
    for kind in ("--sdist", "--wheel"):
        run_program([*build, str(dist), kind, str(clone)])
    (wheel,), (archive,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    checked = run_program([python, "-m", "twine", "check", "--strict", str(wheel), str(archive)])
    for line in checked.splitlines():
        steps.show.say(line.replace(f"{dist}/", ""))
    shutil.unpack_archive(archive, unpacked, filter="data")
    (source,) = unpacked.iterdir()
    run_program([*build, str(unpacked), "--wheel", str(source)])
    (again,) = unpacked.glob("*.whl")
    same = again.read_bytes() == wheel.read_bytes()
    steps.expect(True, same, "The source archive builds the same wheel")


def install_wheel(steps: Image) -> None:
    """Install the wheel under each Python."""
    (wheel,) = (steps.directory / "dist").glob("*.whl")
    for number, each in enumerate((Path(sys.executable), *steps.options.python)):
        directory = steps.directory / f"python-{number}"
        python = _environment(directory, each)
        install = [python, "-m", "pip", "install", "-q", "--only-binary=:all:", "-c"]
        run_program([*install, str(ROOT / "constraints.txt"), str(wheel)])
        version = run_program([python, "--version"]).strip()
        for name in COMMANDS:
            run_program([str(directory / "bin" / name), "--help"], cwd=steps.directory)
        run_program([python, "-m", "pip", "check"])
        steps.show.say(f"{version}: installed with constraints.txt; {len(COMMANDS)} commands start.")
        shutil.rmtree(directory)


def _environment(directory: Path, python: Path) -> str:
    run_program([str(python), "-m", "venv", str(directory)])
    return str(directory / "bin" / "python")


def run_kolla(steps: Image) -> None:
    """Build kolla's image, let its scripts start it, look at its process and health, and stop it."""
    show, seconds = steps.show, steps.options.seconds
    show.step(f"7 kolla's image, with the templates and scripts of kolla {steps.options.kolla}")
    templates = _templates(steps)
    steps.build(NOVA_BASE, _nova_base(steps, templates), steps.base)
    steps.build(NOVA_SCHEDULER, _nova_scheduler(steps, templates), NOVA_BASE)
    show.say(f"User of the image: {steps.images.configuration(NOVA_SCHEDULER)['User']}")
    binds = {steps.directory / "kolla_config": "/var/lib/kolla/config_files"}
    with steps.container(NOVA_SCHEDULER, binds, KOLLA_CONFIG_STRATEGY="COPY_ALWAYS") as container:
        places = (f"{container.root}/usr/local/bin", f"{container.root}/var/lib/kolla/venv/bin")
        found = sorted(path.name for place in places for path in Path(place).glob("berth-*"))
        show.say(f"Commands of Berth on the path: {', '.join(found)}")
        copied = [line for line in container.text().splitlines() if " INFO " in line and " nova." not in line]
        show.say(f"kolla_set_configs: {len(copied)} lines")
        last = copied[-1].endswith("INFO Writing out command to execute")
        steps.expect(True, last, "The last one is that of its end")
        name = Path(f"/proc/{container.init()}/comm").read_text().strip()
        steps.expect("nova-scheduler", name, "Name of process 1")
        owner = (container.root / "etc/nova/nova.conf").stat()
        steps.expect((42436, 0o600), (owner.st_uid, owner.st_mode & 0o777), "Owner and mode of nova.conf")
        port = str(steps.cloud.rabbit.port)
        container.run(["bash", "/usr/local/bin/healthcheck_port", "nova-scheduler", port])
        show.say("The health check of kolla-ansible, healthcheck_port, succeeds.")
        steps.carries_out_plans(container, "/opt/berth/bin/python")
        show.step("8 berth-shadow in a container of kolla's image")
        _compare(steps, binds)
        with steps.load():
            steps.go_on("Under load", seconds)
            steps.end(container, "The container of nova-scheduler")
            steps.start(container)
            steps.go_on("After the next start", seconds)
        steps.compare()


def _compare(steps: Image, binds: dict[Path, str]) -> None:
    """Let berth-shadow run in a container of its own while instances are built, and show its report."""
    more = {"line": SHADOW, "KOLLA_CONFIG_STRATEGY": "COPY_ALWAYS"}
    with steps.container(NOVA_SCHEDULER, binds, "Receiving copies of requests", **more) as shadow:
        with steps.load():
            steps.go_on("Beside berth-shadow", steps.options.seconds)
        found = shadow.run(REPORT)
        for line in found.splitlines()[:4]:
            steps.show.say(line)
        steps.expect(True, AGREED in " ".join(found.split()), "No request is refused that was served")
        steps.end(shadow, "The container of berth-shadow")


def _templates(steps: Image) -> Path:
    """Return the directory with kolla's Dockerfiles, from its wheel."""
    directory = steps.directory / "kolla"
    download = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(directory)]
    run_program([*download, f"kolla=={steps.options.kolla}"])
    (wheel,) = directory.glob("*.whl")
    shutil.unpack_archive(wheel, directory / "unpacked", "zip")
    return next((directory / "unpacked").glob("*.data/data/share/kolla/docker"))


def _nova_base(steps: Image, templates: Path) -> Path:
    context = steps.directory / "nova-base"
    (context / "scripts").mkdir(parents=True)
    for source, name in SCRIPTS.items():
        shutil.copy(templates / source, context / "scripts" / name)
    shutil.copy(templates / "base/sudoers", context / "sudoers")
    (context / "Dockerfile").write_text(DOCKERFILE)
    return context


def _nova_scheduler(steps: Image, templates: Path) -> Path:
    """Render kolla's Dockerfile with the override as kolla-build does, and write the additions."""
    context = steps.directory / "nova-scheduler"
    context.mkdir()
    loader = jinja2.FileSystemLoader([ROOT / "deploy/kolla", templates, templates / "nova/nova-scheduler"])
    # kolla-build calls the template that an override extends by this variable
    values = {"namespace": "localhost", "image_prefix": "", "tag": "berth", "base_package_type": "deb"}
    environment = jinja2.Environment(loader=loader, autoescape=False)  # noqa: S701 - no HTML
    template = environment.get_template("template-override.j2")
    parent = environment.get_template("Dockerfile.j2")
    (context / "Dockerfile").write_text(template.render(parent_template=parent, **values))
    (wheel,) = (steps.directory / "dist").glob("*.whl")
    with tarfile.open(context / "additions-archive", "w") as archive:
        for path in (wheel, ROOT / "constraints.txt"):
            archive.add(path, f"additions/berth/{path.name}")
    return context


#: What each part of the scenario does; the wheel is in kolla's image.
PARTS = {
    "image": (build_and_run,),
    "wheel": (build_wheel, install_wheel),
    "kolla": (build_wheel, run_kolla),
}


def main(arguments: list[str] | None = None) -> int:
    """Run all steps; return 1 if something is not as promised."""
    options = _parse(arguments)
    debian.need("mmdebstrap", "systemd-nspawn", "nsenter", "buildah")
    with (
        command.running("image", options.directory) as directory,
        RunningWorld(world(options.hosts), directory) as cloud,
    ):
        steps = Image(options, directory, cloud)
        for act in dict.fromkeys(act for part in options.only or PARTS for act in PARTS[part]):
            act(steps)
        return steps.ended()


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/berth image", __doc__)
    parser.share(hosts=100, callers=4, seconds=15.0, seed=1, output=None, directory=None)
    share_machines(parser)
    parser.add("--pause", 0.2, "seconds between two requests of a caller, at most")
    parser.add("--only", None, "this part; may be repeated", action="append", choices=list(PARTS))
    parser.add("--python", [], "more Pythons to install the wheel with", type=Path, nargs="+", metavar="FILE")
    parser.add("--kolla", KOLLA, "version of kolla, whose templates and scripts are used")
    options = parser.parse_args(arguments)
    parser.bound(options, hosts=(FEWEST_HOSTS, math.inf))
    return options
