"""Members of a cluster with an address of their own each, on a bridge that does not leave this machine."""

from collections.abc import Sequence
import contextlib
import os
import signal
from typing import Self

from tools.rig.service import run_program

BRIDGE_ADDRESS = "10.199.77.1"
#: Moves from one member to another, as keepalived moves it.
SHARED_ADDRESS = "10.199.77.2"
ADDRESS = "10.199.77.{}"
FIRST = 11


class Network(contextlib.ExitStack):
    """A context manager: a bridge, and a network namespace for each of some names.

    The processes in a namespace are killed before it is removed. Needs root.
    """

    def __init__(self, names: Sequence[str]) -> None:
        """Describe a network; it is made on entry."""
        super().__init__()
        self._suffix = f"{os.getpid() % 100000:05}"
        self._bridge = f"brth{self._suffix}"
        self._numbers = {name: FIRST + number for number, name in enumerate(names)}

    def __enter__(self) -> Self:
        super().__enter__()
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            self.callback(_ip, "link", "delete", self._bridge)
            _ip("address", "add", f"{BRIDGE_ADDRESS}/24", "dev", self._bridge)
            _ip("link", "set", self._bridge, "up")
            for name in self._numbers:
                self._add(name)
        except BaseException:
            self.close()
            raise
        return self

    def address(self, name: str) -> str:
        """Return the address of a member."""
        return ADDRESS.format(self._numbers[name])

    def inside(self, name: str) -> Sequence[str]:
        """Return the beginning of a command that is run with the network of a member."""
        return ("ip", "netns", "exec", self.namespace(name))

    def namespace(self, name: str) -> str:
        """Return the name of the namespace of a member."""
        return f"berth-{self._suffix}-{name}"

    def cut(self, name: str) -> None:
        """Let nothing pass between a member and all others; no connection is reset."""
        _ip("link", "set", self._link(name), "down")

    def join(self, name: str) -> None:
        """Let everything pass again."""
        _ip("link", "set", self._link(name), "up")

    def separate(self, name: str, others: Sequence[str]) -> None:
        """Let nothing pass between a member and some others; the rest still reaches it."""
        for other in others:
            for chain, end in (("INPUT", "--source"), ("OUTPUT", "--destination")):
                self._filter(name, "--append", chain, end, self.address(other), "--jump", "DROP")

    def unite(self, name: str) -> None:
        """Let a member reach all others again."""
        self._filter(name, "--flush")

    def take_over(self, name: str, before: str | None = None) -> None:
        """Give the address that moves to a member, while the one that had it is not reachable."""
        shared = (f"{SHARED_ADDRESS}/24", "dev", "eth0")
        if before:
            self.cut(before)
            _ip("-n", self.namespace(before), "address", "delete", *shared)
        _ip("-n", self.namespace(name), "address", "add", *shared)
        _ip("neighbour", "flush", "to", SHARED_ADDRESS, "dev", self._bridge)

    def _filter(self, name: str, *arguments: str) -> None:
        run_program([*self.inside(name), "iptables", "--wait", *arguments])

    def _add(self, name: str) -> None:
        space = self.namespace(name)
        _ip("netns", "add", space)
        self.callback(self._remove, space)
        peer = ("peer", "name", "eth0", "netns", space)
        _ip("link", "add", self._link(name), "type", "veth", *peer)
        _ip("link", "set", self._link(name), "master", self._bridge, "up")
        inside = ("-n", space)
        _ip(*inside, "address", "add", f"{self.address(name)}/24", "dev", "eth0")
        for link in ("eth0", "lo"):
            _ip(*inside, "link", "set", link, "up")

    def _link(self, name: str) -> str:
        return f"ve{self._suffix}n{self._numbers[name]}"

    @staticmethod
    def _remove(space: str) -> None:
        for pid in run_program(["ip", "netns", "pids", space]).split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        _ip("netns", "delete", space)


def _ip(*arguments: str) -> None:
    run_program(["ip", *arguments])
