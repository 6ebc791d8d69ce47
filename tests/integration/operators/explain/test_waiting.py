"""berth-explain waiting and SIGUSR2: two daemons, one of which has a frozen Placement."""

from concurrent.futures import ThreadPoolExecutor
import json
import os
import signal

import pytest

from scheduler.rpc.context import RequestContext
from tests.support import forked
from tests.support.waiting import eventually
from tests.unit.conductor_client.doubles import make_spec, new_uuid
from tools.rig.placement import PlacementProcess
from tools.rig.providers import fill
from tools.rig.world import Daemon, RunningWorld, World

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(300)]

#: Two calls more than the second scheduler has threads.
THREADS, CALLS = 2, 4

SECTIONS = """
[berth]
decision_stream = false
outage_patience = 600
monitoring_listen = unix:{directory}/monitoring.sock
[oslo_reports]
log_dir = {directory}
"""


class Cloud(RunningWorld):
    """Two schedulers, each with a Placement of its own; what the second one is called for waits."""

    def start_second(self):
        path = self.directory / "placement2.sqlite"
        self.frozen = PlacementProcess(path)
        self.placement_url = self.enter_context(self.frozen)
        fill(path, self.fleet.providers())
        options = SECTIONS.format(directory=self.directory)
        defaults = f"executor_thread_pool_size = {THREADS}\n"
        self.second = self.start_daemon(Daemon("controller2", defaults=defaults, options=options))
        self.second.wait_until_ready()

    def call_second(self, request_id):
        client = self.bus.client("scheduler", "4.5", timeout=200).prepare(server="controller2")
        context = RequestContext(
            user_id="u", project_id="p", request_id=request_id, auth_token="token-of-a-user"
        )
        arguments = {"spec_obj": make_spec(), "instance_uuids": [new_uuid()], "return_objects": True}
        return client.call(context, "select_destinations", **arguments)

    def explain(self, *words):
        program = ("-m", "scheduler.operators.programs", "berth-explain")
        command = (*program, "--config-file", self.config_file, "waiting")
        hosts = ["--scheduler", "controller", "--scheduler", "controller2", "--timeout", "60"]
        done = forked.run(*command, *hosts, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def waiting(self):
        return json.loads(self.explain("-f", "json"))

    def waiting_for_all(self):
        """The list once it has all calls; None before."""
        found = self.waiting()
        return found if len(found) == CALLS else None

    def reports(self, process):
        """What a process writes on SIGUSR2, once its last section has the requests that are queued."""
        before = set(self.directory.glob("*_gurumeditation_*"))

        def written():
            found = set(self.directory.glob("*_gurumeditation_*")) - before
            texts = (path.read_text() for path in found)
            return next((text for text in texts if "a free thread" in text), "")

        os.kill(process, signal.SIGUSR2)
        return eventually(written, 60)


@pytest.fixture
def cloud(tmp_path, rabbit):
    with Cloud(World(cells=1), tmp_path, rabbit) as started:
        started.start_second()
        yield started


def ids_of(requests):
    return sorted(one["request_id"] for one in requests)


def test_requests_that_wait_for_a_frozen_placement_are_listed(cloud):
    wanted = [f"req-{number:08}-0000-4000-8000-000000000000" for number in range(CALLS)]
    os.kill(cloud.frozen.pid, signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(CALLS) as pool:
            calls = [pool.submit(cloud.call_second, request_id) for request_id in wanted]
            found = eventually(cloud.waiting_for_all, 100)
            deciding = [one for one in found if one["step"] != "queue"]
            queued = [one for one in found if one["step"] == "queue"]
            report = cloud.reports(cloud.second.pid)
            output = cloud.explain()
            os.kill(cloud.frozen.pid, signal.SIGCONT)
            assert [call.result(200)[0][0].service_host for call in calls]
    finally:
        os.kill(cloud.frozen.pid, signal.SIGCONT)
    assert ids_of(found) == wanted
    assert {one["scheduler"] for one in found} == {"controller2"}
    assert [one["age"] for one in found] == sorted((one["age"] for one in found), reverse=True)
    assert len(deciding) == THREADS
    assert all("Placement" in one["waits_for"] and one["waited"] > 0 for one in deciding), deciding
    assert [one["waits_for"] for one in queued] == ["a free thread"] * (CALLS - THREADS)
    for name, text in (("report", report), ("output", output)):
        assert [request_id for request_id in wanted if request_id not in text] == [], (name, text)
        assert "a free thread" in text
        assert "token-of-a-user" not in text
    assert cloud.waiting() == []
