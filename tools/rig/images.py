"""Images of containers: built by buildah without a daemon and without a registry, run by systemd-nspawn."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import json
from pathlib import Path
from typing import Any

from tools.rig.debian import NSPAWN
from tools.rig.service import ServiceProcess, run_program


class Images:
    """A store of images in a directory."""

    def __init__(self, directory: Path) -> None:
        """Keep images in a directory."""
        stores = [f"--root={directory}/images", f"--runroot={directory}/running"]
        self._command = ["buildah", "--storage-driver=vfs", *stores]

    def buildah(self, *arguments: str) -> str:
        """Run buildah, and return what it prints; raises as ``run_program``."""
        return run_program([*self._command, *arguments])

    def import_base(self, archive: Path, tag: str) -> None:
        """Make an image of the files in an archive, unless it exists."""
        if tag not in self.buildah("images", "--format={{.Name}}:{{.Tag}}").split():
            name = self.buildah("from", "scratch").strip()
            self.buildah("add", "--quiet", name, str(archive), "/")
            self.buildah("commit", "--quiet", "--rm", name, tag)

    def build(
        self, tag: str, context: Path, arguments: Mapping[str, str], volumes: Mapping[Path, str]
    ) -> None:
        """Build the Dockerfile of a directory, with directories mounted read only for its commands."""
        words = [f"--build-arg={name}={value}" for name, value in arguments.items()]
        words += [f"--volume={source}:{target}:ro" for source, target in volumes.items()]
        options = ("--isolation=chroot", "--format=docker", "--layers=false", "--pull-never")
        self.buildah("build", "--quiet", *options, *words, f"--tag={tag}", str(context))

    def configuration(self, tag: str) -> dict[str, Any]:
        """Return what an image says about how it is run."""
        return json.loads(self.buildah("inspect", "--type=image", tag))["Docker"]["config"]

    @contextlib.contextmanager
    def mounted(self, tag: str) -> Iterator[Path]:
        """Give the directory of the files of a new container, which is removed in the end."""
        name = self.buildah("from", "--pull-never", tag).strip()
        try:
            yield Path(self.buildah("mount", name).strip())
        finally:
            self.buildah("rm", name)


class Container(ServiceProcess):
    """A container of an image on the network of this machine, whose program is process 1 in it.

    Attributes:
        root: The directory of its files.
    """

    def __init__(
        self, root: Path, configuration: Mapping[str, Any], log: Path, binds: Mapping[Path, str], **more: str
    ) -> None:
        """Describe a container.

        Args:
            root: The directory of its files.
            configuration: That of its image.
            log: Where its output is appended.
            binds: What is mounted read only, and where.
            more: Variables of its environment besides those of the image.
        """
        self.root = root
        self._variables = [*configuration["Env"], *(f"{name}={value}" for name, value in more.items())]
        command = [*(configuration.get("Entrypoint") or ()), *(configuration.get("Cmd") or ())]
        self._account = configuration["User"]  # its own: systemd-nspawn itself runs as root
        # By default its name is that of the directory, which is longer than a host name may be
        options = [f"--user={self._account}", f"--directory={root}", "--pipe", f"--machine=berth-{log.stem}"]
        options += [f"--setenv={variable}" for variable in self._variables]
        options += [f"--bind-ro={source}:{target}" for source, target in binds.items()]
        super().__init__([*NSPAWN, *options, "--", *command], log)

    def init(self) -> int:
        """Return the process ID of its process 1, as seen from here."""
        (pid,) = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        return int(pid)

    def run(self, command: Sequence[str], allowed: Sequence[int] = (0,)) -> str:
        """Run a program in it as its user, and return what it prints; raises as ``run_program``."""
        into = ["nsenter", "--all", "--target", str(self.init()), "--", "runuser", "-u", self._account, "--"]
        return run_program([*into, "env", "-i", *self._variables, *command], allowed=allowed)
