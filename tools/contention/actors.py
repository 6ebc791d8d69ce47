"""The threads of a contention run: callers of Berth, outside claimers, deleters, and the one that looks."""

from collections import Counter
from dataclasses import dataclass, field
import random
import threading
import time
import uuid

from scheduler.errors import NoValidHost
from scheduler.manager import SchedulerManager
from scheduler.rpc.context import RequestContext
from tools.contention.cloud import ContentionCloud, PlacementCaller
from tools.contention.history import History, Holding, Verdict
from tools.rig import truth
from tools.rig.fleet import ZONES
from tools.rig.load import PROJECT, USER, BootRequest, Flavor

#: Share, name, vCPUs, MiB of memory, GiB of disk: four to eight of the first fill a host.
FLAVORS = (Flavor(1, "c1.half", 8, 61440, 100), Flavor(1, "c1.whole", 16, 122880, 200))
MEMORY_OF_SLOT = FLAVORS[0].memory_mb

#: Deleters keep this share of the memory free: no more than a few instances find a host.
FREE_SHARE = 0.12
IDLE_TIME = 0.005  # seconds of a deleter that finds nothing to delete
LOOK_INTERVAL = 0.05  # seconds between two looks at all allocations


@dataclass
class Findings:
    """What the threads found.

    Attributes:
        outcomes: Numbers of what happened, by name.
        problems: What is wrong, one line each.
    """

    outcomes: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def count(self, name: str) -> None:
        """Count an outcome."""
        with self._lock:
            self.outcomes[name] += 1

    def add_problem(self, line: str) -> None:
        """Add a problem, unless it is known."""
        with self._lock:
            if line not in self.problems:
                self.problems.append(line)


@dataclass(frozen=True)
class Scene:
    """What the threads act on.

    Attributes:
        cloud: The services.
        manager: The scheduler.
        history: Where all claims and deletions are noted.
        findings: Where outcomes and problems are noted.
    """

    cloud: ContentionCloud
    manager: SchedulerManager
    history: History
    findings: Findings

    def free_share(self) -> float:
        """Return the share of the hosts' memory, in slots of the smallest instance, that is free."""
        slots = sum(host.hardware.memory_mb // MEMORY_OF_SLOT for host in self.cloud.fleet.hosts)
        return 1 - self.history.used("MEMORY_MB") / MEMORY_OF_SLOT / slots


class Actor:
    """One thread; ``act`` is called until the run ends."""

    def __init__(self, scene: Scene, rng: random.Random) -> None:
        """Act on a scene; ``rng`` makes the choices of this thread."""
        self.scene = scene
        self.cloud = scene.cloud
        self.history = scene.history
        self.findings = scene.findings
        self.rng = rng
        self.placement = PlacementCaller(scene.cloud.placement_url)

    def act(self) -> None:
        """Do one thing."""
        raise NotImplementedError

    def new_uuid(self) -> str:
        """Return the UUID of an instance."""
        return str(uuid.UUID(int=self.rng.getrandbits(128), version=4))


class BerthCaller(Actor):
    """Asks Berth for hosts, and Placement whether a NoValidHost is true."""

    def act(self) -> None:
        """Send one request, for one instance: what one for several releases is not in the history."""
        uuids = [self.new_uuid()]
        request = BootRequest(uuids, self.rng.choice(FLAVORS), self.rng.choice((None, None, None, *ZONES)))
        context = RequestContext(user_id=USER, project_id=PROJECT)
        started = self.history.clock()
        try:
            chosen = self.scene.manager.select_destinations(
                context, request.spec(), uuids, return_objects=True, return_alternates=True
            )
        except NoValidHost as error:
            self._judge(request, started, str(error))
        else:
            node = chosen[0][0].compute_node_uuid
            self.cloud.rows.change(node, 1, request.amounts["MEMORY_MB"])
            self.history.add(Holding(uuids[0], node, request.amounts))
            self.findings.count("placed by Berth")

    def _judge(self, request: BootRequest, started: float, reason: str) -> None:
        zones = {each.name: each.uuid for each in self.cloud.fleet.aggregates}
        found = self.placement.find(request.amounts, zones.get(request.zone))
        offered = {provider for each in found for provider in each["allocations"]}
        verdict = self.history.judge(offered, started)
        self.findings.count(f"NoValidHost, {verdict.name.lower()}")
        if verdict is Verdict.FALSE:
            self.findings.add_problem(
                f"Instance {request.uuids[0]}: {reason!r}, but {sorted(offered)} have room"
            )


class OutsideClaimer(Actor):
    """Claims as another scheduler or a conductor does."""

    def act(self) -> None:
        """Claim on one of the hosts that Placement offers."""
        amounts = self.rng.choice(FLAVORS).amounts
        found = self.placement.find(amounts)
        if not found:
            return
        allocations = self.rng.choice(found)["allocations"]
        (provider,) = allocations
        instance = self.new_uuid()
        status = self.placement.claim(instance, allocations)
        self.findings.count(f"outside claim, HTTP {status}")
        if status == 204:
            self.cloud.rows.change(provider, 1, amounts["MEMORY_MB"])
            self.history.add(Holding(instance, provider, amounts))
        elif status != 409:
            with self.history.freeing(provider):  # it may have been granted in spite of the status
                self.placement.delete(instance)


class Deleter(Actor):
    """Deletes instances while there is less memory free than there should be."""

    def act(self) -> None:
        """Delete one instance, its allocations first."""
        gone = self.history.remove_one(self.rng) if self.scene.free_share() <= FREE_SHARE else None
        if gone is None:
            time.sleep(IDLE_TIME)
            return
        with self.history.freeing(gone.provider):
            self.placement.delete(gone.uuid)
        self.cloud.rows.change(gone.provider, -1, -gone.amounts["MEMORY_MB"])
        self.findings.count("deleted")


class Looker(Actor):
    """Looks for over-committed inventories."""

    def act(self) -> None:
        """Look once."""
        for line in truth.check_database(self.cloud.placement_database).problems:
            self.findings.add_problem(line)
        self.findings.count("looks at all allocations")
        time.sleep(LOOK_INTERVAL)
