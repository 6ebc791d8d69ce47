"""What steps on a controller and with images are made of: a load, and what is not as promised."""

import argparse
from collections.abc import Collection, Iterator, Sequence
import contextlib
import textwrap
import time

from tools.rig.building import Building
from tools.rig.load import Call
from tools.rig.rows import ApiRows
from tools.rig.service import ANY, run_program, until
from tools.rig.world import RunningWorld, World

#: Seconds in which requests are answered again.
PATIENCE = 180
WIDTH = 118


class Transcript:
    """Prints steps, and commands with their output; ``text`` has all that was printed."""

    def __init__(self, shell: Sequence[str] = ("bash", "-o", "pipefail", "-c")) -> None:
        """Begin; ``shell`` runs a line."""
        self.text = ""
        self._shell = shell

    def step(self, title: str) -> None:
        """Begin a step."""
        self._print(f"\n== {title}")

    def say(self, line: str) -> None:
        """Tell what happens beside the commands."""
        self._print(textwrap.fill(f"# {line}", WIDTH, subsequent_indent="# "))

    def run(self, line: str) -> None:
        """Run a command by the shell, and show it with its output; its status is an answer."""
        output = run_program([*self._shell, line], allowed=ANY)
        self._print("\n".join([f"$ {line}", *filter(str.strip, output.splitlines())]))

    def _print(self, text: str) -> None:
        self.text += f"{text}\n"
        print(text, flush=True)


def world(hosts: int) -> World:
    """Return real servers for a scheduler in a system of its own."""
    return World(hosts, databases="mariadb", daemons=())


class Steps:
    """Acts on schedulers while instances are built, and shows what it does.

    Attributes:
        problems: What was not as promised, so far.
        building: The latest load.
    """

    building: Building

    def __init__(self, cloud: RunningWorld, show: Transcript, options: argparse.Namespace) -> None:
        """Describe them; ``load`` begins."""
        self.cloud, self.show, self.options = cloud, show, options
        self.problems: list[str] = []
        self._expected: list[Call] = []
        self._earlier: set[str] = set()

    def nova_conf(self, monitoring: str) -> str:
        """Return the nova.conf of a controller, with the address of its health checks and metrics."""
        sections = f"[berth]\nmonitoring_listen = {monitoring}\n"
        defaults = "state_path = /var/lib/nova"
        return self.cloud.configure(self.cloud.callers_bus, defaults=defaults, sections=sections).read_text()

    def expect(self, wanted: object, found: object, what: str) -> None:
        """Show something, and note a problem if it is not as wanted."""
        self.show.say(f"{what}: {found}")
        if found != wanted:
            self.problems.append(f"{what}: {found}, not {wanted}")

    def load(self) -> Building:
        """Return new callers, which ask for hosts for other instances than those before."""
        if hasattr(self, "building"):
            self._earlier |= {uuid for call in self.building.calls for uuid in call.request.uuids}
        self.building = Building(
            self.cloud,
            self.cloud.bus,
            self.options.callers,
            self.options.pause,
            seed=self.options.seed + len(self._earlier),
            api=ApiRows(self.cloud.engine(self.cloud.database("api"))),
        )
        self.cloud.callback(self.building.give_up)
        return self.building

    def go_on(self, when: str, seconds: float | None = None) -> None:
        """Let instances be built for a while, and show how that went."""
        first = len(self.building.answers)
        time.sleep(seconds or self.options.seconds)
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

    def compare(self) -> None:
        """Compare the answers to the callers, which have stopped, with Placement and nova's databases."""
        found = self.building.problems(self._earlier)
        for call in self._expected:
            found.remove(f"Not served: {call.error}")
        times = self.building.times()
        self.show.say(f"{times}. Compared with Placement, {len(found)} are lost, doubled or wrong.")
        self.problems += found

    def ended(self) -> int:
        """Show what was not as promised, and return the exit status."""
        for line in self.problems:
            self.show.say(f"NOT AS PROMISED: {line}")
        if self.options.output:
            self.options.output.write_text(self.show.text.lstrip())
        return 1 if self.problems else 0
