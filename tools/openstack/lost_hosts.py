"""Hosts that are lost: computes are killed and evacuated, and the outcome is compared with plans."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
import contextlib
import json
from typing import Any

from tools.openstack.api import Api, ApiError, NotReachedError
from tools.openstack.layout import Layout
from tools.openstack.planned_cloud import PREFIX, TIMEOUT, PlannedCloud, berth_plan, say
from tools.openstack.services import Services

CALLERS = 4
#: So large that a cloud is full soon.
FILLING = "quarter"
#: States in which nova evacuates a server.
EVACUATED = ("ACTIVE", "SHUTOFF")


class LostHosts:
    """What plans say of the loss of a host, and what comes of one that is lost."""

    def __init__(self, layout: Layout, world: PlannedCloud) -> None:
        """Describe them for a cloud that is filled."""
        self._layout = layout
        self._services = Services(layout)
        self._api = Api(layout)
        self._world = world

    def survive(self) -> bool:
        """Kill the fullest host of each cell in turn, and evacuate its servers through the API."""
        results = [self._survived(self._world.fullest(cell)) for cell in self._cells()]
        return all(results)

    def _survived(self, host: str) -> bool:
        answer = self._answer(host)
        servers = self._api.on(host)
        with self._dead(host):
            placed = sum(self._evacuated(server, host) for server in servers)
        by_hand = sum(answer["by_hand"].values())
        say(
            f"survive {host}: {answer['instances']} servers, {answer['placed']} placed by the plan,"
            f" {by_hand} of them by hand, {placed} of {len(servers)} evacuated"
        )
        return placed == answer["placed"] - by_hand and answer["instances"] == len(servers)

    def run(self) -> bool:
        """Kill the fullest host; a drain that evacuates empties it: first what nova takes, then the rest."""
        host = self._world.fullest()
        (self._layout.directory / "runs").mkdir(exist_ok=True)
        state = self._layout.directory / "runs" / "evacuate.jsonl"
        state.unlink(missing_ok=True)
        answer = self._answer(host)
        by_hand = sum(answer["by_hand"].values())
        words = ["drain", host, "--evacuate", "--run", "--state", str(state), "-f", "json"]
        alive = berth_plan(self._layout, *words)
        with self._dead(host):
            first = berth_plan(self._layout, *words)
            left = len(self._api.on(host))
            second = berth_plan(self._layout, *words, "--reset-states")
            last = len(self._api.on(host))
        undone = berth_plan(self._layout, "drain", host, "--undo", "--state", str(state))
        self._api.disable(host, disabled=False)
        stays = [each["why"] for each in json.loads(first.stdout or "{}").get("stays", ())]
        say(
            f"drain {host} --evacuate --run: {answer['instances']} servers, {by_hand} of them by hand; status"
            f" {alive.returncode} while it was up; {first.returncode} with {left} left {stays};"
            f" {second.returncode} with --reset-states, {last} left; {undone.returncode} of --undo"
        )
        for each in (first, second, undone):
            if each.returncode not in {0, 3}:
                say(each.stderr[-1000:])
        return (
            alive.returncode == 255
            and first.returncode == (3 if by_hand else 0)
            and left == by_hand
            and (second.returncode, last, undone.returncode) == (0, 0, 0)
        )

    def loss(self) -> bool:
        """Lose the host that matters most, and another, and fill what is left with servers of one flavor."""
        plan = self._world.plan("capacity", "--all")
        (planned,) = [each for each in plan["flavors"] if each["flavor"] == FILLING]
        worst, headroom = planned["worst_loss"], planned["headroom"]
        other = max(self._layout.hosts, key=lambda host: (host != worst, host))
        fit = {host: self._fit_without(host, headroom) for host in (worst, other)}
        say(
            f"after the loss of the host that matters most, {worst}: {headroom} of {FILLING} planned,"
            f" {fit[worst]} became ACTIVE; after the loss of {other}: {fit[other]}"
        )
        return fit[worst] == headroom <= fit[other]

    def _fit_without(self, host: str, expected: int) -> int:
        """Return how many servers fit after a host is lost and all its servers are evacuated."""
        order = [move["instance"] for move in self._world.plan("drain", host)["moves"]]
        servers = sorted(self._api.on(host), key=lambda each: order.index(each) if each in order else -1)
        with self._dead(host):
            for server in servers:
                if self._api.server(server)["status"] not in EVACUATED:
                    self._api.act(server, "os-resetState", {"state": "error"})
                if not self._evacuated(server, host):
                    say(f"server {server} has no place after the loss of {host}")
            return filled(self._api, expected + 4)

    # -- what these use

    def _cells(self) -> list[str]:
        return sorted(set(self._layout.hosts.values()))

    def _answer(self, host: str) -> dict[str, Any]:
        (answer,) = [each for each in self._world.plan("survive")["answers"] if each["domain"] == host]
        return answer

    @contextlib.contextmanager
    def _dead(self, host: str) -> Iterator[None]:
        """Kill a compute and declare it dead; it comes back in the end."""
        self._services[host].kill()
        self._api.force_down(host)
        try:
            yield
        finally:
            self._services.start(host)
            self._api.force_up(host)

    def _evacuated(self, server: str, host: str) -> bool:
        try:
            self._api.act(server, "evacuate", {})
            self._api.wait(server, *EVACUATED, off=host)
        except (ApiError, NotReachedError) as error:
            say(str(error))
            return False
        return True


def filled(api: Api, number: int) -> int:
    """Boot servers until there is no host for another; delete them, and return how many were ACTIVE."""
    with ThreadPoolExecutor(CALLERS) as pool:
        booted = list(pool.map(lambda each: api.boot(f"{PREFIX}fill-{each}", FILLING), range(number)))
    try:
        return sum(_became_active(api, server) for server in booted)
    finally:
        api.delete(*booted)


def _became_active(api: Api, server: str) -> bool:
    try:
        api.wait(server, "ACTIVE", patience=TIMEOUT)
    except NotReachedError:
        return False
    return True
