"""The script of a plan, run by a shell with a client that moves instances between files."""

import os
import subprocess

import pytest

from scheduler.operators.plan.drain import DrainMove, commands

#: A client: a file named after an instance has its host. $FAILED names an instance whose migrations fail as
#: those of nova do after ``--wait``: with status 0. An evacuated instance is shown on its old host twice, or for
#: ever if it is $FAILED.
CLIENT = """\
#!/bin/sh
cd "$HOSTS" || exit 9
echo "$OS_COMPUTE_API_VERSION $*" >> calls
for instance; do :; done
case "$*" in
    *REFUSED*) exit 1 ;;
    "server show"*)
        cat "$instance"
        if [ -e "$instance.2" ]; then mv "$instance.2" "$instance.1"
        elif [ -e "$instance.1" ]; then mv "$instance.1" "$instance"; fi ;;
    "server evacuate"*)
        [ "$instance" = "$FAILED" ] && exit 0
        while [ "$1" != --host ]; do shift; done
        echo "$2" > "$instance.2" ;;
    "server migrate"*)
        [ "$instance" = "$FAILED" ] && exit 0
        while [ "$1" != --host ]; do shift; done
        echo "$2" > "$instance" ;;
esac
"""


def plan(*moves):
    return [
        DrainMove(
            instance=name,
            state="active",
            source="h1",
            step=step,
            to=host,
            way=way,
            zone="z",
            reset_state=False,
        )
        for step, (name, host, way) in enumerate(moves, 1)
    ]


THREE = plan(("i1", "h2", "live"), ("i2", "h3", "cold"), ("i3", "h2", "live"))


@pytest.fixture
def run(tmp_path):
    """Run the script of a plan; all instances are on h1 at first."""

    def run(made, failed=""):
        programs, hosts = tmp_path / "bin", tmp_path / "hosts"
        programs.mkdir()
        hosts.mkdir()
        client = programs / "openstack"
        client.write_text(CLIENT)
        client.chmod(0o755)
        (programs / "sleep").symlink_to("/bin/true")
        for move in made:
            (hosts / move.instance).write_text("h1\n")
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", "HOSTS": str(hosts), "FAILED": failed}
        text = "\n".join(commands(made))
        ended = subprocess.run(
            ["sh"], input=text, env=environment, capture_output=True, text=True, check=False
        )
        where = {move.instance: (hosts / move.instance).read_text().strip() for move in made}
        return ended, where, (hosts / "calls").read_text().splitlines()

    return run


def test_instances_are_moved_in_order_and_cold_ones_are_confirmed(run):
    ended, where, calls = run(THREE)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert where == {"i1": "h2", "i2": "h3", "i3": "h2"}
    assert [call for call in calls if "show" not in call] == [
        "2.56 server migrate --live-migration --host h2 --wait i1",
        "2.56 server migrate --host h3 --wait i2",
        "2.56 server migration confirm i2",
        "2.56 server migrate --live-migration --host h2 --wait i3",
    ]


@pytest.mark.parametrize(("failed", "moved"), [("i1", {}), ("i2", {"i1": "h2"})])
def test_the_script_stops_at_an_instance_that_is_not_on_its_planned_host(run, failed, moved):
    ended, where, calls = run(THREE, failed)
    assert ended.returncode == 1
    planned = {"i1": "h2", "i2": "h3"}[failed]
    assert ended.stderr == f"Stopped: instance {failed} is on host h1, the plan says {planned}\n"
    assert where == {"i1": "h1", "i2": "h1", "i3": "h1"} | moved
    assert not any("confirm" in call for call in calls)


def test_the_script_stops_at_a_command_that_fails(run):
    ended, where, _calls = run(plan(("i1", "REFUSED", "live"), ("i2", "h2", "live")))
    assert ended.returncode == 1
    assert where == {"i1": "h1", "i2": "h1"}


def test_instances_of_a_dead_host_are_evacuated_after_a_reset_if_they_need_it(run):
    made = plan(("i1", "h2", "evacuate"), ("i2", "h3", "evacuate"))
    made[0].reset_state = True
    ended, where, calls = run(made)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert where == {"i1": "h2", "i2": "h3"}
    assert [call for call in calls if "show" not in call] == [
        "2.56 server set --state error i1",
        "2.56 server evacuate --host h2 --wait i1",
        "2.56 server evacuate --host h3 --wait i2",
    ]


def test_the_script_stops_at_an_instance_that_is_not_evacuated(run):
    ended, where, _calls = run(plan(("i1", "h2", "evacuate"), ("i2", "h3", "evacuate")), failed="i1")
    assert ended.returncode == 1
    assert ended.stderr == "Stopped: instance i1 is on host h1, the plan says h2\n"
    assert where == {"i1": "h1", "i2": "h1"}


def test_the_version_of_the_api_comes_first():
    assert commands(THREE)[0] == "export OS_COMPUTE_API_VERSION=2.56"


def test_a_plan_without_moves_has_no_commands():
    assert commands(plan()) == []
