"""The Debian package in a machine with systemd: started, broken, upgraded and removed under load.

The package is built on the release that it is for, and the machine is booted by systemd-nspawn, so this needs
root. RabbitMQ, MariaDB and Placement are private and on loopback. What took long is kept for the next run:
the systems of Debian, and the wheels. ``tools/berth package`` lets the judges of the distribution judge it.
"""

import argparse
from collections.abc import Callable, Mapping
import math
from pathlib import Path
import re
import shutil
import time

import requests

from tools.rig import command, debian
from tools.rig.debian import Machine
from tools.rig.load import FEWEST_HOSTS
from tools.rig.packages import Packages
from tools.rig.servers import free_port
from tools.rig.service import ANY, until
from tools.rig.world import RunningWorld
from tools.scenarios.package import built, share_machines
from tools.scenarios.steps import Steps, Transcript, world

NOVA_CONF = "/etc/nova/nova.conf"
SERVICE = "berth-scheduler"
MONITORING_PORTS = range(9812, 9900)
#: What nova's packages make.
PREPARE = """\
useradd --system --home-dir /var/lib/nova --create-home --shell /usr/sbin/nologin nova
install -d -m 750 -o root -g nova /etc/nova
install -d -m 750 -o nova -g nova /var/log/nova
"""
#: Seconds until systemd's watchdog kills a frozen daemon, of the pause before a start, and of the start.
WATCHDOG, PAUSE, START = 60, 5, 60
#: What install.rst names in /var/lib/berth.
LEFT_BY_TIMERS = ("berth.prom", "berth-survive.prom", "capacity.html", "survive.html", "survive", "report")
#: Files of ours, but those that install.rst says the daemons write below /var/lib/nova.
LEFT = "find / -xdev \\( -path /root -o -path '*/nova/*' \\) -prune -o -name '*berth*' -print"
#: What a router needs: a partition of two zones, and one of the third.
PARTITIONS = """\
[berth_partition_general]
aggregates = az1, az2
zones = az1, az2
flavors = m1.small
[berth_partition_large]
aggregates = az3
zones = az3
flavors = m1.xlarge
"""
#: Seconds in which copies of requests are compared.
SHADOWED = 30


class Controller(Steps):
    """Acts on a machine while instances are built."""

    def __init__(
        self, cloud: RunningWorld, machine: Machine, packages: Packages, options: argparse.Namespace
    ) -> None:
        """Prepare the machine as nova's packages do."""
        super().__init__(cloud, Transcript(machine.shell), options)
        self.machine, self.packages = machine, packages
        self.monitoring = f"127.0.0.1:{free_port(MONITORING_PORTS)}"
        machine.run(PREPARE)
        (machine.root / NOVA_CONF[1:]).write_text(self.nova_conf(self.monitoring))
        machine.run(f"chgrp nova {NOVA_CONF} && chmod 640 {NOVA_CONF}")

    def install(self, package: Path) -> None:
        """Install a package."""
        shutil.copy(package, self.machine.root / "root" / package.name)
        self.show.run(f"dpkg --install /root/{package.name} 2>&1 | grep -v '^(Reading'")

    def property(self, name: str, unit: str = SERVICE) -> str:
        """Return a property of a unit."""
        return self.machine.run(f"systemctl show --value -p {name} {unit}").strip()

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


def install(steps: Controller) -> None:
    """Install the package and look whether it may serve; it is not started by that."""
    show = steps.show
    show.step("1 Install it beside nova.conf")
    steps.install(steps.packages.this)
    steps.expect("inactive", steps.property("ActiveState"), "state after the installation")
    show.step("2 Check it")
    berth = "runuser -u nova -- /opt/berth/bin/"
    show.run(f"{berth}berth-scheduler --config-file {NOVA_CONF} --check-config | tail -n 12")
    show.run(f"{berth}berth-status --config-file {NOVA_CONF} upgrade check")


def start(steps: Controller) -> None:
    """Start it, and let callers build."""
    show = steps.show
    show.step("3 Start it")
    steps.timed("systemctl start berth-scheduler")
    show.run("systemctl status --no-pager --lines 8 berth-scheduler")
    steps.expect("active", steps.property("ActiveState"), "state after the start")
    steps.load().__enter__()
    steps.go_on("Under load")


def reload(steps: Controller) -> None:
    """Change an option under load."""
    with steps.under_load("4 Reload under load"):
        steps.machine.run(f"printf '[filter_scheduler]\\nhost_subset_size = 2\\n' >> {NOVA_CONF}")
        steps.timed("systemctl reload berth-scheduler")
        steps.show_journal(3)


def freeze(steps: Controller) -> None:
    """Freeze it; the watchdog restarts it."""
    # Nothing keeps a caller waiting for longer than rpc_response_timeout if its only scheduler is frozen
    with steps.under_load("5 Freeze it", ("MessagingTimeout",)):
        limit = WATCHDOG + PAUSE + START
        steps.restarted("systemctl kill --kill-whom=main --signal=STOP berth-scheduler", limit)
        steps.show_journal(1, "systemd")


def kill(steps: Controller) -> None:
    """Kill it; systemd starts it again."""
    with steps.under_load("6 Kill it"):
        steps.restarted("systemctl kill --kill-whom=main --signal=KILL berth-scheduler", PAUSE + START)


def stop(steps: Controller) -> None:
    """Stop it in the middle of requests, which are answered then or after the next start."""
    with steps.under_load("7 Stop it under load"):
        steps.timed("systemctl stop berth-scheduler")
        steps.expect("success", steps.property("Result"), "result of the stop")
        steps.show_journal(4)
        steps.timed("systemctl start berth-scheduler")


def change_version(steps: Controller) -> None:
    """Install the next version while this one serves, restart, and go back."""
    for title, package in (
        ("8 Upgrade under load", steps.packages.following),
        ("9 Downgrade under load", steps.packages.this),
    ):
        with steps.under_load(title):
            running = steps.version()
            steps.install(package)
            steps.expect(running, steps.version(), "version that runs after the installation")
            steps.timed("systemctl restart berth-scheduler")
            steps.show.say(f"Version {steps.version()} runs.")
            steps.expect(package.name.split("_")[1], steps.version(), "version after the restart")


def run_the_others(steps: Controller) -> None:
    """Run the shadow, the router and what the timers start."""
    show = steps.show
    with steps.under_load("10 The shadow"):
        steps.timed("systemctl start berth-shadow")
        steps.go_on("With the shadow", SHADOWED)
        shadow = f"runuser -u nova -- /opt/berth/bin/berth-shadow --config-file {NOVA_CONF}"
        show.run(f"{shadow} report --directory /var/lib/nova | head -n 4")
        steps.timed("systemctl stop berth-shadow")
        steps.expect("success", steps.property("Result", "berth-shadow"), "result of berth-shadow")
    show.step("11 Plans and report by timers")
    for unit in ("berth-plan", "berth-report"):
        steps.timed(f"systemctl start {unit}.service")
        show.run(f"systemctl enable --quiet --now {unit}.timer")
    show.run("ls -l /var/lib/berth")
    for name in LEFT_BY_TIMERS:
        found = steps.machine.run(f"find /var/lib/berth/{name} -type f -size +0 -print -quit", ANY)
        steps.expect(True, found.startswith("/var/lib"), f"/var/lib/berth/{name} has content")
    show.run("systemctl list-timers --no-pager 'berth-*'")
    show.step("12 The router")
    steps.machine.run(f"cat >> {NOVA_CONF} <<'END'\n{PARTITIONS}\nEND")
    steps.timed("systemctl start berth-router")
    show.run("systemctl status --no-pager --lines 3 berth-router | head -n 8")
    steps.expect("active", steps.property("ActiveState", "berth-router"), "state of the router")
    steps.timed("systemctl stop berth-router")


def compare(steps: Controller) -> None:
    """End the load, and compare all replies with Placement and nova's databases."""
    show = steps.show
    show.step("13 What became of all requests")
    steps.building.stop()
    steps.compare()
    show.run(f"runuser -u nova -- /opt/berth/bin/berth-status --config-file {NOVA_CONF} audit")


def remove(steps: Controller) -> None:
    """Remove the package while it runs, purge it, and look what is left."""
    show = steps.show
    show.step("14 Remove and purge it")
    show.run("dpkg --remove berth-scheduler")
    show.run("systemctl is-active berth-scheduler berth-plan.timer")
    running = steps.machine.run("pgrep -af '[/]opt/berth|[b]erth-'", ANY).strip()
    steps.expect("", running, "what runs after the removal")
    show.run("dpkg --purge berth-scheduler")
    steps.expect("", steps.machine.run(LEFT).strip(), "Files that are left by the purge")
    show.say("Queues on the broker:")
    show.say(" ".join(sorted(steps.cloud.rabbit.queues("/"))))


#: Those without which the others have nothing to act on, and the others by their names.
FIRST, LAST = (install, start), (compare, remove)
STEPS: Mapping[str, Callable[[Controller], None]] = {
    "reload": reload,
    "freeze": freeze,
    "kill": kill,
    "stop": stop,
    "upgrade": change_version,
    "others": run_the_others,
}


def main(arguments: list[str] | None = None) -> int:
    """Run all steps; return 1 if something is not as promised."""
    options = _parse(arguments)
    debian.need("mmdebstrap", "systemd-nspawn", "nsenter")
    with (
        command.running("controller", options.directory) as directory,
        built(options, directory) as (root, packages),
        RunningWorld(world(options.hosts), directory) as cloud,
        Machine(root) as machine,
    ):
        steps = Controller(cloud, machine, packages, options)
        chosen = [STEPS[name] for name in STEPS if name in (options.only or STEPS)]
        for step in (*FIRST, *chosen, *LAST):
            step(steps)
        return steps.ended()


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/berth controller", __doc__)
    parser.share(hosts=100, callers=4, seconds=15.0, seed=1, output=None, directory=None)
    share_machines(parser)
    parser.add("--pause", 1.0, "seconds between two requests of a caller, at most")
    steps = "this step between start and removal; may be repeated"
    parser.add("--only", None, steps, action="append", choices=list(STEPS))
    options = parser.parse_args(arguments)
    parser.bound(options, hosts=(FEWEST_HOSTS, math.inf))
    return options
