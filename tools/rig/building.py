"""Instances that are built all the time, whichever schedulers serve the topic, and what became of each."""

from collections.abc import Collection
import random
import statistics

from conductor_client.bus import Bus
from conductor_client.client import SchedulerClient
from tools.rig import truth
from tools.rig.load import CALL_TIMEOUT, Call, Callers, random_requests
from tools.rig.rows import ApiRows, Computes
from tools.rig.world import RunningWorld


class Building(Callers):
    """Callers that ask for hosts as conductors do, from entry to exit of the context.

    A chosen host gets a row for the instance in the database of its cell, and its compute node another usage,
    as its compute writes them.
    """

    def __init__(
        self,
        cloud: RunningWorld,
        bus: Bus,
        callers: int,
        pause: float = 0.2,
        seed: int = 1,
        api: ApiRows | None = None,
    ) -> None:
        """Describe the load: callers with at most ``pause`` seconds between two requests.

        With ``api``, the API database says which instances wait for a host: schedulers are killed, and look
        there.
        """
        client, requests = SchedulerClient(bus, timeout=CALL_TIMEOUT), random_requests(random.Random(seed))
        super().__init__(client, requests, callers, pause=pause, before=self._request, after=self._write)
        self._cloud = cloud
        self._api = api
        self._computes = Computes(cloud.fleet)
        self._hosts = {host.name: host for host in cloud.fleet.hosts}

    def stop(self) -> None:
        """Send no more requests, and wait until all are answered."""
        super().stop()
        self._computes.close()

    @property
    def answers(self) -> list[Call]:
        """What was answered so far."""
        return [call for call in list(self.calls) if call.ended]

    def problems(self, unknown: Collection[str] = ()) -> list[str]:
        """Compare all answers with Placement, once stopped.

        Args:
            unknown: Consumers that are not the load's.

        Returns:
            A line for each request without hosts, each instance that does not hold exactly its amounts, each
            allocation of no instance, and each over-committed inventory.
        """
        expected = truth.promised(self.calls, self._cloud.fleet)
        found = truth.check(self._cloud.placement_url, self._cloud.fleet.providers(), expected, unknown)
        return [*(f"Not served: {call.error}" for call in self.calls if call.error), *found.problems]

    def times(self, first: int = 0) -> str:
        """Return how long answers took, and how many were errors, from the one with this number on."""
        answers = self.answers[first:]
        seconds = [answer.seconds for answer in answers] or [0.0]
        failed = sum(bool(answer.error) for answer in answers)
        took = f"median {statistics.median(seconds):.2f} s, longest {max(seconds):.2f} s"
        return f"{len(answers)} answers, {failed} of them errors; {took}"

    def _request(self, call: Call) -> None:
        if self._api:
            self._api.requested(call.request.uuids)

    def _write(self, call: Call) -> None:
        for instance, selections in zip(call.request.uuids, call.selections, strict=False):
            host = self._hosts[selections[0].service_host]
            self._computes.built(host, instance, call.request.flavor)
            if self._api:
                self._api.ended([instance], [instance], host.cell)
        if self._api and not call.selections:
            self._api.ended(call.request.uuids)
