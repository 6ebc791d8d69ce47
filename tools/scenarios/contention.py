"""Nearly full hosts: is what Berth claims and refuses true while others claim and delete at the same time?

The hosts are on a real database server. Callers ask Berth, one client claims on its own as another scheduler
does, deleters make room, and the allocations are read all the time.
"""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
import contextlib
from pathlib import Path
import random
import threading
import time

from tools.rig import command, servers, truth
from tools.rig.contention_cloud import ContentionCloud
from tools.rig.load import Call, Callers, Flavor, random_requests, random_uuid
from tools.rig.rows import Computes
from tools.scenarios.contention_history import History, Verdict

SERVERS = {"mariadb": servers.mariadb, "postgresql": servers.postgresql}
#: Four to eight of the first fill a host.
FLAVORS = (Flavor(1, "c1.half", 8, 61440, 100), Flavor(1, "c1.whole", 16, 122880, 200))
SLOT_MB = FLAVORS[0].memory_mb
CALLERS, DELETERS = 6, 2
#: Deleters keep this share of the memory free: no more than a few instances find a host.
FREE_SHARE = 0.12
IDLE_TIME = 0.005  # seconds of a deleter that finds nothing to delete
LOOK_INTERVAL = 0.05  # seconds between two looks at all allocations


class Contention:
    """The load, and what it finds: ``outcomes`` counts what happened, ``problems`` has what is wrong."""

    def __init__(self, cloud: ContentionCloud, seed: int) -> None:
        self.outcomes: Counter[str] = Counter()
        self.problems: dict[str, None] = {}
        self._cloud, self._seed = cloud, seed
        self._history = History()
        self._hosts = {host.uuid: host for host in cloud.fleet.hosts}
        self._zones = {each.name: each.uuid for each in cloud.fleet.aggregates}
        self._slots = sum(host.hardware.memory_mb // SLOT_MB for host in cloud.fleet.hosts)
        self._computes = Computes(cloud.fleet)

    def run(self, seconds: float) -> None:
        """Fill the hosts, and then let all claim and delete for so many seconds."""
        rng = random.Random(f"{self._seed} filling")
        while self._free_share() > FREE_SHARE:
            self._claim_outside(rng)
        others = [self._claim_outside, *[self._delete] * DELETERS, self._look]
        drawn = random_requests(random.Random(self._seed), zone_share=0.5, flavors=FLAVORS)
        callers = Callers(self._cloud, drawn, CALLERS, seconds=seconds, after=self._judge)
        stop = threading.Event()

        def repeat(number: int, act: Callable[[random.Random], None]) -> None:
            rng = random.Random(f"{self._seed} {number}")
            while not stop.is_set():
                act(rng)

        with ThreadPoolExecutor(len(others)) as pool, contextlib.closing(self._computes):
            threads = [pool.submit(repeat, *each) for each in enumerate(others)]
            try:
                with callers:
                    callers.wait()
            finally:
                stop.set()
            for thread in threads:
                thread.result()

    def compare(self) -> None:
        """Compare all that is held with Placement, once the scheduler has stopped."""
        self._found(*truth.check_database(self._cloud.placement_database, self._history.expected()).problems)

    def _judge(self, call: Call) -> None:
        """Note what a caller got; ask Placement whether it is true that there is no host."""
        request = call.request
        if call.selections:
            self._built(request.uuids[0], call.selections[0][0].compute_node_uuid, request.flavor)
            self.outcomes["placed by Berth"] += 1
        elif call.error != "NoValidHost":
            self._found(f"Instance {request.uuids[0]}: {call.error}")
        else:
            offers = self._cloud.offers(request.amounts, self._zones.get(request.zone))
            providers = {provider for each in offers for provider in each}
            verdict = self._history.judge(providers, call.sent)
            self.outcomes[f"NoValidHost, {verdict.name.lower()}"] += 1
            if verdict is Verdict.FALSE:
                self._found(f"Instance {request.uuids[0]} got no host, but {sorted(providers)} have room")

    def _claim_outside(self, rng: random.Random) -> None:
        """Claim on one of the hosts that Placement offers, as another scheduler does."""
        instance, flavor = random_uuid(rng), rng.choice(FLAVORS)
        offers = self._cloud.offers(flavor.amounts)
        if not offers:
            return
        allocations = rng.choice(offers)
        (provider,) = allocations
        status = self._cloud.claim(instance, allocations)
        self.outcomes[f"outside claim, HTTP {status}"] += 1
        if status == 204:
            self._built(instance, provider, flavor)
        elif status != 409:
            with self._history.freeing(provider):  # it may have been granted in spite of the status
                self._cloud.free(instance)

    def _delete(self, rng: random.Random) -> None:
        """Delete an instance, its allocations first, if there is less memory free than there should be."""
        gone = self._history.remove_one(rng) if self._free_share() <= FREE_SHARE else None
        if gone is None:
            time.sleep(IDLE_TIME)
            return
        instance, provider = gone
        with self._history.freeing(provider):
            self._cloud.free(instance)
        self._computes.deleted(self._hosts[provider], instance)
        self.outcomes["deleted"] += 1

    def _look(self, _rng: random.Random) -> None:
        """Look for over-committed inventories."""
        self._found(*truth.check_database(self._cloud.placement_database).problems)
        self.outcomes["looks at all allocations"] += 1
        time.sleep(LOOK_INTERVAL)

    def _built(self, instance: str, provider: str, flavor: Flavor) -> None:
        self._computes.built(self._hosts[provider], instance, flavor)
        self._history.add(instance, provider, flavor)

    def _found(self, *lines: str) -> None:
        self.problems |= dict.fromkeys(lines)

    def _free_share(self) -> float:
        """Return the share of the hosts' memory, in slots of the smallest instance, that is free."""
        return 1 - self._history.used() / SLOT_MB / self._slots


def run(server: str, directory: Path, seconds: float, hosts: int = 10, seed: int = 1) -> Contention:
    """Run on a database server (the URL of a user who may create databases), and return what was found."""
    with ContentionCloud(server, directory, hosts) as cloud:
        load = Contention(cloud, seed)
        with cloud.scheduler():
            load.run(seconds)
        load.compare()
    return load


def main(arguments: list[str] | None = None) -> int:
    """Run on each server; return 1 if something is wrong."""
    parser = command.Parser("tools/benchmark contention", __doc__)
    parser.share(hosts=10, seconds=300.0, seed=1)
    parser.add(
        "--servers", list(SERVERS), "database servers, one after the other", nargs="+", choices=SERVERS
    )
    options = parser.parse_args(arguments)
    wrong = 0
    for kind in options.servers:
        with command.running("contention") as directory, SERVERS[kind]() as server:
            load = run(server.url, directory, options.seconds, options.hosts, options.seed)
        print(kind, *(f"{number:9} {name}" for name, number in sorted(load.outcomes.items())), sep="\n")
        print("".join(f"  WRONG: {line}\n" for line in load.problems), end="")
        wrong += len(load.problems)
    return 1 if wrong else 0
