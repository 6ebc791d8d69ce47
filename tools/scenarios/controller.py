"""The Debian package in a machine with systemd: installed, started, broken, upgraded and purged under load.

The package is built on the release that it is for, and the machine is booted by systemd-nspawn, so this needs
root. RabbitMQ, MariaDB and Placement are private and on loopback. What took long is kept for the next run:
the systems of Debian, the wheels, and the packages while no file of the checkout changes.
"""

import argparse
from collections.abc import Callable, Mapping
import math
from pathlib import Path
import shutil

from tools.rig import command, debian, packages
from tools.rig.building import Building
from tools.rig.load import FEWEST_HOSTS
from tools.rig.world import RunningWorld
from tools.scenarios.controller_steps import NOVA_CONF, Controller, api_rows, world
from tools.scenarios.transcript import Transcript

#: Seconds until systemd's watchdog kills a frozen daemon, of the pause before a start, and of the start.
WATCHDOG, PAUSE, START = 60, 5, 60
#: What install.rst names in /var/lib/berth.
LEFT_BY_TIMERS = ("berth.prom", "berth-survive.prom", "capacity.html", "survive.html", "survive", "report")
#: Where the daemons write, by what install.rst says; the package brings none of these.
WRITTEN = ("/var/lib/nova/", "/var/log/nova/")
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


def install(steps: Controller) -> None:
    """Install the package and look whether it may serve; it is not started by that."""
    show = steps.show
    show.step("1 Install it beside nova.conf")
    steps.install(steps.packages.this)
    show.run("systemctl is-enabled berth-scheduler; systemctl is-active berth-scheduler")
    steps.expect("inactive", steps.property("ActiveState"), "state after the installation")
    show.step("2 Check it")
    berth = "runuser -u nova -- /opt/berth/bin/"
    show.run(f"{berth}berth-scheduler --config-file {NOVA_CONF} --check-config | tail -n 12")
    show.run(f"{berth}berth-status --config-file {NOVA_CONF} upgrade check")
    show.run(f"{berth}berth-plan drain --help | grep -o -- ' --run .*' | head -n 1")
    found = steps.machine.run(f"{berth}python -c 'import openstack.connection; print(openstack.__name__)'")
    steps.expect("openstack", found.strip(), "the SDK of OpenStack, by which plans are carried out")


def start(steps: Controller) -> None:
    """Start it, and let callers build."""
    show = steps.show
    show.step("3 Start it")
    steps.timed("systemctl start berth-scheduler")
    show.run("systemctl status --no-pager --lines 8 berth-scheduler")
    steps.expect("active", steps.property("ActiveState"), "state after the start")
    steps.building.__enter__()
    steps.go_on("Under load")


def secure(steps: Controller) -> None:
    """Read what systemd thinks of the units."""
    steps.show.step("4 Its sandbox")
    for unit in ("scheduler", "router", "shadow", "plan", "report"):
        output = steps.machine.run(f"systemd-analyze security --no-pager berth-{unit}.service")
        level = float(output.rpartition("service: ")[2].split()[0])
        steps.show.say(f"systemd-analyze security berth-{unit}: {level}")
        if level > 2:
            steps.problems.append(f"berth-{unit} has exposure level {level}")
    steps.show.run(
        "systemd-analyze security --no-pager berth-scheduler | sed -n 's/^✗ \\(.*[^ ]\\)  .*/\\1/p'"
    )


def reload(steps: Controller) -> None:
    """Change an option under load."""
    with steps.under_load("5 Reload under load"):
        steps.machine.run(f"printf '[filter_scheduler]\\nhost_subset_size = 2\\n' >> {NOVA_CONF}")
        steps.timed("systemctl reload berth-scheduler")
        steps.show_journal(3)


def freeze(steps: Controller) -> None:
    """Freeze it; the watchdog restarts it."""
    # Nothing keeps a caller waiting for longer than rpc_response_timeout if its only scheduler is frozen
    with steps.under_load("6 Freeze it", ("MessagingTimeout",)):
        limit = WATCHDOG + PAUSE + START
        steps.restarted("systemctl kill --kill-whom=main --signal=STOP berth-scheduler", limit)
        steps.show_journal(1, "systemd")


def kill(steps: Controller) -> None:
    """Kill it; systemd starts it again."""
    with steps.under_load("7 Kill it"):
        steps.restarted("systemctl kill --kill-whom=main --signal=KILL berth-scheduler", PAUSE + START)


def stop(steps: Controller) -> None:
    """Stop it in the middle of requests, which are answered then or after the next start."""
    with steps.under_load("8 Stop it under load"):
        steps.timed("systemctl stop berth-scheduler")
        steps.expect("success", steps.property("Result"), "result of the stop")
        steps.show_journal(4)
        steps.timed("systemctl start berth-scheduler")


def change_version(steps: Controller) -> None:
    """Install the next version while this one serves, restart, and go back."""
    for title, package in (
        ("9 Upgrade under load", steps.packages.following),
        ("10 Downgrade under load", steps.packages.this),
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
    with steps.under_load("11 The shadow"):
        steps.timed("systemctl start berth-shadow")
        steps.go_on("With the shadow", SHADOWED)
        shadow = f"runuser -u nova -- /opt/berth/bin/berth-shadow --config-file {NOVA_CONF}"
        show.run(f"{shadow} report --directory /var/lib/nova | head -n 4")
        steps.timed("systemctl stop berth-shadow")
        steps.expect("success", steps.property("Result", "berth-shadow"), "result of berth-shadow")
    show.step("12 Plans and report by timers")
    for unit in ("berth-plan", "berth-report"):
        steps.timed(f"systemctl start {unit}.service")
        show.run(f"systemctl enable --quiet --now {unit}.timer")
    show.run("ls -l /var/lib/berth")
    for name in LEFT_BY_TIMERS:
        found = steps.machine.run(f"find /var/lib/berth/{name} -type f -size +0 -print -quit", range(256))
        steps.expect(True, found.startswith("/var/lib"), f"/var/lib/berth/{name} has content")
    show.run("systemctl list-timers --no-pager 'berth-*'")
    show.step("13 The router")
    steps.machine.run(f"cat >> {NOVA_CONF} <<'END'\n{PARTITIONS}\nEND")
    steps.timed("systemctl start berth-router")
    show.run("systemctl status --no-pager --lines 3 berth-router | head -n 8")
    steps.expect("active", steps.property("ActiveState", "berth-router"), "state of the router")
    steps.timed("systemctl stop berth-router")


def compare(steps: Controller) -> None:
    """End the load, and compare all replies with Placement and nova's databases."""
    show = steps.show
    show.step("14 What became of all requests")
    steps.building.stop()
    found = steps.wrong()
    show.say(f"{steps.building.times()}. Compared with Placement, {len(found)} are lost, doubled or wrong.")
    steps.problems += found
    show.run(f"runuser -u nova -- /opt/berth/bin/berth-status --config-file {NOVA_CONF} audit")


def remove(steps: Controller) -> None:
    """Remove the package while it runs, purge it, and look what is left."""
    show = steps.show
    show.step("15 Remove and purge it")
    show.run("dpkg --remove berth-scheduler")
    show.run("systemctl is-active berth-scheduler berth-plan.timer")
    running = steps.machine.run("pgrep -af '[/]opt/berth|[b]erth-'", range(256)).strip()
    steps.expect("", running, "what runs after the removal")
    show.run("dpkg --purge berth-scheduler")
    show.say("Files that were not there before the installation:")
    left = steps.left_over()
    for path in left:
        show.say(path)
    steps.expect([], [path for path in left if not path.startswith(WRITTEN)], "what is left by the purge")
    show.say("Queues on the broker:")
    show.say(" ".join(sorted(steps.cloud.rabbit.queues("/"))))


#: Those without which the others have nothing to act on, and the others by their names.
FIRST, LAST = (install, start), (compare, remove)
STEPS: Mapping[str, Callable[[Controller], None]] = {
    "secure": secure,
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
    debian.need("mmdebstrap", "systemd-nspawn", "nsenter", "lintian")
    with command.running("controller", options.directory) as directory:
        built = packages.build(options.machines, options.release)
        archive = debian.bootstrap(options.machines, options.release, "controller")
        root = directory / options.release
        shutil.rmtree(root, ignore_errors=True)
        try:
            return _run(options, directory, debian.unpack(archive, root), built)
        finally:
            shutil.rmtree(root, ignore_errors=True)


def _run(options: argparse.Namespace, directory: Path, root: Path, built: packages.Packages) -> int:
    with RunningWorld(world(options.hosts), directory) as cloud, debian.Machine(root) as machine:
        building = Building(
            cloud, cloud.bus, options.callers, options.pause, seed=options.seed, api=api_rows(cloud)
        )
        cloud.callback(building.give_up)
        show = Transcript(machine.shell)
        steps = Controller(cloud, machine, building, show, built, options.seconds)
        chosen = [STEPS[name] for name in STEPS if name in (options.only or STEPS)]
        for step in (*FIRST, *chosen, *LAST):
            step(steps)
        show.step(f"16 The package, built on {options.release}")
        for line in steps.lint():
            show.say(line)
        for line in steps.problems:
            show.say(f"NOT AS PROMISED: {line}")
        if options.output:
            show.write(options.output)
    return 1 if steps.problems else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = command.Parser("tools/berth controller", __doc__)
    parser.share(hosts=100, callers=4, seconds=15.0, seed=1, output=None, directory=None)
    parser.add("--release", "bookworm", "release of Debian", choices=sorted(packages.RELEASES))
    parser.add("--pause", 1.0, "seconds between two requests of a caller, at most")
    steps = "this step between start and removal; may be repeated"
    parser.add("--only", None, steps, action="append", choices=list(STEPS))
    parser.add("--machines", command.MACHINES, "where systems, wheels and packages are kept", type=Path)
    options = parser.parse_args(arguments)
    parser.bound(options, hosts=(FEWEST_HOSTS, math.inf))
    return options
