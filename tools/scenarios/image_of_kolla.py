"""kolla's image of nova-scheduler with the override of deploy/kolla, started by kolla's own scripts."""

import json
from pathlib import Path
import shutil
import sys
import tarfile
from typing import Any

import jinja2

from tools.rig.debian import run_program
from tools.rig.images import Container
from tools.rig.service import ROOT
from tools.scenarios.image_steps import START, Image

VERSION = "20.0.0"
BASE_TAG, TAG = "localhost/nova-base:berth", "localhost/nova-scheduler:berth"
#: What kolla's images "base" and "nova-base" do, as far as the scripts of a container need it. No nova.
NOVA_BASE = """\
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


def run(steps: Image) -> None:
    """Build the image, let kolla's scripts start it, look at its process and health, and stop it."""
    show = steps.show
    show.step(f"7 kolla's image, with the templates and scripts of kolla {steps.options.kolla}")
    templates = _templates(steps)
    steps.build(BASE_TAG, _nova_base(steps, templates), steps.base)
    steps.build(TAG, _nova_scheduler(steps, templates), BASE_TAG)
    configuration = steps.images.configuration(BASE_TAG) | {"User": "nova"}
    show.say(f"User of the image: {steps.images.configuration(TAG)['User']}")
    files = steps.directory / "config_files"
    files.mkdir()
    (files / "nova.conf").write_text(steps.nova_conf)
    (files / "config.json").write_text(json.dumps(CONFIG))
    with steps.images.mounted(TAG) as root:
        show.say("Commands of Berth on the path: " + ", ".join(_commands(root)))
        log = steps.directory / "kolla.log"
        binds = {files: "/var/lib/kolla/config_files"}
        container = Container(root, configuration, log, binds, KOLLA_CONFIG_STRATEGY="COPY_ALWAYS")
        steps.serve(container)
        try:
            copied = [
                line for line in container.text().splitlines() if " INFO " in line and " nova." not in line
            ]
            show.say(f"kolla_set_configs: {len(copied)} lines")
            steps.expect(
                True,
                copied[-1].endswith("INFO Writing out command to execute"),
                "The last one is that of its end",
            )
            name = Path(f"/proc/{container.init()}/comm").read_text().strip()
            steps.expect("nova-scheduler", name, "Name of process 1")
            owner = (root / "etc/nova/nova.conf").stat()
            steps.expect((42436, 0o600), (owner.st_uid, owner.st_mode & 0o777), "Owner and mode of nova.conf")
            container.run(
                ["bash", "/usr/local/bin/healthcheck_port", "nova-scheduler", str(steps.cloud.rabbit.port)]
            )
            show.say("The health check of kolla-ansible, healthcheck_port, succeeds.")
            steps.carries_out_plans(container, "/opt/berth/bin/python")
            _compare(steps, configuration, binds)
            with steps.load():
                steps.answers(steps.options.seconds, "Under load")
                _end(steps, container, "nova-scheduler")
                steps.serve(container)
                steps.answers(steps.options.seconds, "After the next start")
            steps.compare()
        finally:
            container.stop()


def _compare(steps: Image, configuration: dict[str, Any], binds: dict[Path, str]) -> None:
    """Let berth-shadow run in a container of its own while instances are built, and show its report."""
    steps.show.step("8 berth-shadow in a container of kolla's image")
    with steps.images.mounted(TAG) as root:
        shadowing = configuration | {"Cmd": ["bash", "-c", SHADOW]}
        shadow = Container(
            root, shadowing, steps.directory / "shadow.log", binds, KOLLA_CONFIG_STRATEGY="COPY_ALWAYS"
        )
        shadow.start()
        try:
            shadow.wait_for_line("Receiving copies of requests", START)
            with steps.load():
                steps.answers(steps.options.seconds, "Beside berth-shadow")
            found = shadow.run(REPORT)
            for line in found.splitlines()[:4]:
                steps.show.say(line)
            steps.expect(True, AGREED in " ".join(found.split()), "No request is refused that was served")
            _end(steps, shadow, "berth-shadow")
        finally:
            shadow.stop()


def _end(steps: Image, container: Container, what: str) -> None:
    steps.end(container, f"The container of {what}")
    steps.expect(0, container.status, f"Exit status of {what} after SIGTERM")


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
    (context / "Dockerfile").write_text(NOVA_BASE)
    return context


def _nova_scheduler(steps: Image, templates: Path) -> Path:
    """Render kolla's Dockerfile with the override as kolla-build does, and write the additions."""
    context = steps.directory / "nova-scheduler"
    context.mkdir()
    places = [ROOT / "deploy/kolla", templates, templates / "nova/nova-scheduler"]
    loader = jinja2.FileSystemLoader(places)
    # kolla-build calls the template that an override extends by this variable
    values = {"namespace": "localhost", "image_prefix": "", "tag": "berth", "base_package_type": "deb"}
    environment = jinja2.Environment(loader=loader, autoescape=False)  # noqa: S701 - no HTML
    template = environment.get_template("template-override.j2")
    parent = environment.get_template("Dockerfile.j2")
    (context / "Dockerfile").write_text(template.render(parent_template=parent, **values))
    (wheel,) = (steps.directory / "dist").glob("*.whl")
    with tarfile.open(context / "additions-archive", "w") as archive:
        for path in (wheel, ROOT / "constraints.txt"):
            archive.add(path, f"additions/berth/{path.name}", filter=_without_time)
    return context


def _without_time(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 0
    return member


def _commands(root: Path) -> list[str]:
    places = (root / "usr/local/bin", root / "var/lib/kolla/venv/bin")
    found = (path.name for place in places for path in place.glob("berth-*"))
    return sorted(found)
