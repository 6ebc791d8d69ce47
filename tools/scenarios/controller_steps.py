"""What the steps on a controller are made of."""

from collections.abc import Collection, Iterator, Sequence
import contextlib
import os
from pathlib import Path
import re
import shutil
import time

import requests

from tools.rig import debian
from tools.rig.building import Building
from tools.rig.debian import Machine, until
from tools.rig.load import Call
from tools.rig.packages import Packages
from tools.rig.rows import ApiRows
from tools.rig.servers import free_port
from tools.rig.world import RunningWorld, World
from tools.scenarios.transcript import Transcript

NOVA_CONF = "/etc/nova/nova.conf"
SERVICE = "berth-scheduler"
#: What nova's packages make.
PREPARE = """\
useradd --system --home-dir /var/lib/nova --create-home --shell /usr/sbin/nologin nova
install -d -m 750 -o root -g nova /etc/nova
install -d -m 750 -o nova -g nova /var/log/nova
"""
#: Where files come and go that are no package's.
NOT_OURS = re.compile(
    r"(proc|sys|dev|run|tmp|root|var/(tmp|cache|log/journal|lib/(dpkg|apt|systemd/(random-seed|catalog)))"
    r"|var/log/(dpkg|alternatives).*|var/lib/dbus)(/|$)"
)
#: Seconds in which requests are answered again.
PATIENCE = 180
MONITORING_PORTS = range(9812, 9900)


def world(hosts: int) -> World:
    """Return real servers for a scheduler in a machine of its own."""
    return World(hosts, databases="mariadb", daemons=())


def nova_conf(cloud: RunningWorld, monitoring: str) -> str:
    """Return the nova.conf of a controller, with the address of its health checks and metrics."""
    sections = f"[berth]\nmonitoring_listen = {monitoring}\n"
    defaults = "state_path = /var/lib/nova"
    return cloud.configure(cloud.callers_bus, defaults=defaults, sections=sections).read_text()


def api_rows(cloud: RunningWorld) -> ApiRows:
    """Return what writes to the API database which instances wait for a host."""
    return ApiRows(cloud.engine(cloud.database("api")))


class Controller:
    """Acts on a machine while instances are built, and shows what it does.

    Attributes:
        problems: What was not as promised, so far.
    """

    def __init__(
        self,
        cloud: RunningWorld,
        machine: Machine,
        building: Building,
        show: Transcript,
        packages: Packages,
        seconds: float,
    ) -> None:
        """Prepare the machine as nova's packages do."""
        self.cloud, self.machine, self.building, self.show, self.packages = (
            cloud,
            machine,
            building,
            show,
            packages,
        )
        self.problems: list[str] = []
        self._expected: list[Call] = []
        self._seconds = seconds
        self.monitoring = f"127.0.0.1:{free_port(MONITORING_PORTS)}"
        show.answers = range(256)  # systemctl has a status for each state
        machine.run(PREPARE)
        (machine.root / NOVA_CONF[1:]).write_text(nova_conf(cloud, self.monitoring))
        machine.run(f"chgrp nova {NOVA_CONF} && chmod 640 {NOVA_CONF}")
        self._before = self._files()

    def lint(self) -> list[str]:
        """Return what the package says of itself, and what lintian found."""
        package = str(self.packages.this)
        fields = debian.run_program(["dpkg-deb", "-f", package, "Version", "Depends", "Installed-Size"])
        found = debian.run_program(["lintian", "--allow-root", package], allowed=range(256)).splitlines()
        errors = [line for line in found if line.startswith("E:")]
        self.problems += errors
        warnings = sorted({line.split()[2] for line in found if line.startswith("W:")})
        listed = f" ({', '.join(warnings)})" if warnings else ""
        return [
            *fields.splitlines(),
            f"lintian: {len(errors)} errors, {len(warnings)} kinds of warnings{listed}",
        ]

    def install(self, package: Path) -> None:
        """Install a package."""
        shutil.copy(package, self.machine.root / "root" / package.name)
        self.show.run(f"dpkg --install /root/{package.name} 2>&1 | grep -v '^(Reading'")

    def property(self, name: str, unit: str = SERVICE) -> str:
        """Return a property of a unit."""
        return self.machine.run(f"systemctl show --value -p {name} {unit}").strip()

    def expect(self, wanted: object, found: object, what: str) -> None:
        """Note a problem if something is not as wanted."""
        if found != wanted:
            self.problems.append(f"{what}: {found}, not {wanted}")

    def timed(self, line: str) -> None:
        """Run a command, show it and how long it took."""
        started = time.monotonic()
        self.show.run(line)
        self.show.say(f"It took {time.monotonic() - started:.1f} s.")

    def restarted(self, line: str, limit: float) -> None:
        """Run a command that breaks the service, and wait until systemd has started it again."""
        restarts = int(self.property("NRestarts"))
        self.show.run(line)
        took = until(
            lambda: (
                (int(self.property("NRestarts")), self.property("ActiveState")) == (restarts + 1, "active")
            ),
            "systemd does not restart the service",
            4 * limit,
        )
        self.show.say(f"Restarted and ready after {took:.0f} s.")
        if took > limit:
            self.problems.append(f"{line}: restarted after {took:.0f} s, not {limit:.0f} s")

    def version(self) -> str:
        """Return the version of the daemon that runs."""
        text = requests.get(f"http://{self.monitoring}/metrics", timeout=10).text
        (found,) = re.findall(r'^berth_build_info\{.*version="([^"]+)"', text, re.MULTILINE)
        return found

    def show_journal(self, lines: int, identifier: str = "") -> None:
        """Show the latest lines of the journal about the service."""
        by = f" -t {identifier}" if identifier else ""
        self.show.run(f"journalctl -u {SERVICE}{by} -o cat --no-pager -n {lines}")

    def go_on(self, when: str, seconds: float | None = None) -> None:
        """Let instances be built for a while, and show how that went."""
        first = len(self.building.answers)
        time.sleep(seconds or self._seconds)
        until(lambda: len(self.building.answers) >= first + 5, "No more instances are built", PATIENCE)
        self.show.say(f"{when}: {self.building.times(first)}.")

    @contextlib.contextmanager
    def under_load(self, title: str, may_fail: Collection[str] = ()) -> Iterator[None]:
        """Begin a step, and show what became of the requests of its time: no errors but those that may be."""
        self.show.step(title)
        first = len(self.building.answers)
        yield
        self.go_on("Afterwards")
        self.show.say(f"In this step: {self.building.times(first)}.")
        self._expected += [call for call in self.building.answers[first:] if call.error in may_fail]
        failed = [call for call in self.building.answers[first:] if call.error and call.error not in may_fail]
        self.problems += [f"{title}: {call.error}" for call in failed]

    def wrong(self) -> list[str]:
        """Return what is wrong with the replies, and with what instances hold, once the load is stopped."""
        found = self.building.problems()
        for call in self._expected:
            found.remove(f"Not served: {call.error}")
        return found

    def left_over(self) -> Sequence[str]:
        """Return the files that were not there before the package was."""
        return sorted(f"/{path}" for path in self._files() - self._before)

    def _files(self) -> set[str]:
        root = self.machine.root
        found = (str(path.relative_to(root)) for path in _walk(root))
        return {path for path in found if not NOT_OURS.match(path)}


def _walk(root: Path) -> Iterator[Path]:
    for directory, names, files in os.walk(root):
        place = Path(directory)
        names[:] = [name for name in names if not NOT_OURS.match(str((place / name).relative_to(root)))]
        yield from (place / name for name in (*names, *files))
