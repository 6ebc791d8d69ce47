"""The promise on real parts: schedulers that are killed or stopped, callers that ask twice, a slow Placement.

After quiet returns, every instance that a caller was told a host for holds exactly that host's allocation, nothing
else holds anything, and every caller is answered.
"""

from concurrent.futures import Future
import threading

import oslo_messaging as messaging
import pytest
import sqlalchemy as sa

from conductor_client.client import SchedulerClient
from scheduler import errors
from scheduler.nova_db.schema import instance_mappings
from tests.support.waiting import eventually
from tests.unit.conductor_client.doubles import context, make_spec, new_uuid
from tools.rig import providers
from tools.rig.faulty_proxy import delayed
from tools.rig.world import Daemon, RunningWorld, World

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(600)]

HOSTS = 12
STARTED = "The daemon takes requests"
MORE = """
[filter_scheduler]
host_subset_size = 5
[berth]
database_start_timeout = 60
"""


class PromisedCloud(RunningWorld):
    """A cloud whose schedulers a test starts."""

    def start_scheduler(self, name, **options):
        """Start a scheduler of its own host name, and wait until it answers."""
        defaults = "".join(f"{option} = {value}\n" for option, value in options.items())
        log = self.directory / f"{name}.log"
        known = log.read_text().count(STARTED) if log.exists() else 0
        scheduler = self.start_daemon(Daemon(name, defaults=defaults))
        scheduler.wait_until_ready(times=known + 1)
        return scheduler

    def call(self, instances):
        """Ask for hosts in a thread; the future has the compute node of each instance, or raises the error."""
        future: Future = Future()
        spec = make_spec(num_instances=len(instances))
        client = SchedulerClient(self.bus, timeout=240, monitor=None)

        def work():
            try:
                reply = client.select_destinations(context(), spec, list(instances))
                future.set_result([row[0].compute_node_uuid for row in reply])
            except Exception as error:  # noqa: BLE001 - the test looks at it
                future.set_exception(error)

        threading.Thread(target=work, daemon=True).start()
        return future

    def writes(self):
        """Return how many writes of allocations Placement was sent."""
        return self.proxy.count("PUT", "/allocations") + self.proxy.count("POST", "/allocations")

    def give_up(self, instances):
        """Let nova's API database say that nobody waits for these instances any more."""
        engine = sa.create_engine(self.conf.api_database.connection)
        with engine.begin() as connection:
            rows = [{"instance_uuid": uuid, "project_id": "p"} for uuid in instances]
            connection.execute(instance_mappings.insert(), rows)
        engine.dispose()

    def held(self, instance):
        """Return the providers on which an instance has allocations."""
        return sorted(providers.held(self.behind, instance))

    def consumers(self):
        """Return all instances that have allocations."""
        return providers.consumers(self.behind, self.fleet.providers())


@pytest.fixture(scope="module")
def everything(tmp_path_factory, rabbit):
    world = World(HOSTS, faulty=True, options=MORE, daemons=())
    with PromisedCloud(world, tmp_path_factory.mktemp("cloud"), rabbit) as cloud:
        yield cloud


@pytest.fixture
def cloud(everything):
    """The cloud, whose instances at the end are those that callers were told a host for."""
    yield everything
    everything.proxy.clear_faults()
    for scheduler in everything.schedulers:
        scheduler.stop()
    everything.schedulers.clear()


def told_by(futures):
    """Return for each call the compute nodes that its caller was told; None if it was told an error."""
    return [answer_of(future) for future in futures]


def answer_of(future):
    try:
        return future.result(200)
    except (errors.NoValidHost, messaging.RemoteError):
        return None


def test_two_schedulers_that_get_the_same_request_at_once_answer_with_what_the_instance_holds(cloud):
    for name in ("first", "second"):
        cloud.start_scheduler(name)
    wrong, answered = [], 0
    for number in [1] * 8 + [2] * 3:
        instances = [new_uuid() for _ in range(number)]
        told = told_by([cloud.call(instances) for _ in range(2)])
        held = [cloud.held(instance) for instance in instances]
        answers = [answer for answer in told if answer is not None]
        answered += len(answers)
        if any(held != [[node] for node in answer] for answer in answers) or (not answers and any(held)):
            wrong.append((told, held))
    assert wrong == []
    assert answered >= 11


def ask_for_much(cloud, sent, seconds):
    """Ask for single instances and for many at once, while Placement answers writes late; until some were sent."""
    cloud.proxy.on("PUT", "/allocations", *[delayed(seconds)] * 1000)
    cloud.proxy.on("POST", "/allocations", *[delayed(seconds)] * 1000)
    wanted = [[new_uuid() for _ in range(number)] for number in (1, 1, 1, 1, 12, 12)]
    writes = cloud.writes()
    futures = [cloud.call(instances) for instances in wanted]
    assert eventually(lambda: cloud.writes() >= writes + sent), "no claims are sent"
    return wanted, futures


def settled(cloud, before, wanted, futures):
    """Wait until Placement has what the callers were told, and nothing else that was not there before."""
    told = told_by(futures)
    expected = {
        instance: [node]
        for instances, answer in zip(wanted, told, strict=True)
        for instance, node in zip(instances, answer or (), strict=answer is not None)
    }
    assert eventually(lambda: cloud.consumers() == before | expected.keys(), 90), "others have allocations"
    assert {instance: cloud.held(instance) for instance in expected} == expected
    return told


def test_after_kill_9_of_all_processes_every_caller_is_answered_by_the_next_and_nothing_leaks(cloud):
    before = cloud.consumers()
    scheduler = cloud.start_scheduler("killed")
    # a write has at most twenty instances, so what is asked for takes two at least
    wanted, futures = ask_for_much(cloud, sent=2, seconds=2.0)
    scheduler.kill()
    cloud.proxy.clear_faults()
    assert cloud.consumers() - before
    assert not all(future.done() for future in futures)
    cloud.start_scheduler("killed")
    told = settled(cloud, before, wanted, futures)
    assert None not in told


def test_a_stop_while_placement_is_slow_leaves_nothing_of_requests_that_were_not_answered(cloud):
    before = cloud.consumers()
    scheduler = cloud.start_scheduler("stopped", graceful_shutdown_timeout=20)
    # claims that wait behind the first write are not sent any more
    wanted, futures = ask_for_much(cloud, sent=1, seconds=3.0)
    assert scheduler.stop() == 0
    cloud.proxy.clear_faults()
    log = scheduler.log.read_text()
    # Placement may take all claims in one write: then every request is answered before the stop
    if not all(future.done() for future in futures):
        assert "Requeueing call " in log
        assert ": the scheduler is stopping" in log
    cloud.start_scheduler("stopped")
    told = settled(cloud, before, wanted, futures)
    assert None not in told


def test_callers_that_have_left_while_all_schedulers_were_away_get_no_hosts(cloud):
    before = cloud.consumers()
    instances = [new_uuid() for _ in range(20)]
    cloud.give_up(instances)
    futures = [cloud.call([instance]) for instance in instances]
    scheduler = cloud.start_scheduler("late")
    assert told_by(futures) == [None] * 20
    assert cloud.consumers() == before
    assert eventually(lambda: "Dropped a call without serving it" in scheduler.text()), "nothing is told"
