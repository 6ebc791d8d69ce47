"""A shadow beside a real nova-scheduler, which nova's conductor asks for hosts."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
import json
import signal

import pytest

from scheduler.operators.explain.log_reader import DecisionLogReader
from scheduler.operators.shadow import report
from scheduler.operators.shadow.decisions import ShadowVerdict
from scheduler.operators.shadow.shadow import FILE
from tests.integration.interop.nova_deployment import NovaDeployment
from tests.integration.test_shadow import printed_report, shadow_queues
from tests.support.waiting import eventually
from tools.rig.schedulers import NovaSchedulerProcess
from tools.rig.world import World

pytestmark = [pytest.mark.interop, pytest.mark.rabbitmq, pytest.mark.slow, pytest.mark.timeout(300)]

#: Requests of ten: one is for three instances, one fits nowhere.
REQUESTS = 20
INSTANCES = REQUESTS // 10 * (10 + 2 - 1)


class ServedByNova(NovaDeployment):
    """A cloud whose only scheduler is nova-scheduler."""

    def _start(self):
        super()._start()
        program = self.nova.python.with_name("nova-scheduler")
        scheduler = NovaSchedulerProcess(program, self.nova_configuration, self.directory / "nova.log")
        scheduler.start()
        self.callback(scheduler.kill)
        scheduler.wait_until_it_answers(self.bus)

    def start_shadow(self, name):
        """Start a shadow; its comparisons, and its decision log, are in the directory of this name."""
        (self.directory / name).mkdir()
        options = self.directory / name / "shadow.conf"
        options.write_text(f"[berth]\ndecision_log = {self.directory / name}\n")
        arguments = ["--config-file", self.config_file, "--config-file", options, "run"]
        shadow = self.run(
            "scheduler.operators.programs",
            "berth-shadow",
            *arguments,
            "--directory",
            self.directory / name,
            name=f"run-{name}",
        )
        shadow.wait_for_line("Receiving copies of requests")
        return shadow

    def compared(self, name):
        """The comparisons in a directory, by the id of the request."""
        return {each.request_id: each for each in report.read(self.directory / name)}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory, rabbit, nova):
    directory = tmp_path_factory.mktemp("nova")
    with ServedByNova(World(daemons=()), directory, rabbit, nova) as running:
        yield running


def assert_all_built(built):
    """Fail if a request that fits was refused, or one that does not was served."""
    assert len(built) == REQUESTS
    assert [len(one["hosts"]) for one in built if one["hosts"]] == [
        len(one["instances"]) for number, one in enumerate(built) if number % 10 != 3
    ]
    assert sum(len(one["hosts"]) for one in built) == INSTANCES


def test_a_shadow_decides_as_nova_does(cloud):
    shadow = cloud.start_shadow("quiet")
    built = cloud.run_nova("nova_builds", REQUESTS, cloud.directory / "quiet" / FILE)
    assert_all_built(built)
    assert eventually(lambda: len(cloud.compared("quiet")) == REQUESTS, 150), "not all requests are compared"
    assert shadow.stop() == 0
    assert "Traceback" not in shadow.text()
    assert shadow_queues(cloud) == []
    compared = cloud.compared("quiet")
    for one in built:
        found = compared[one["request"]]
        assert sorted(found.nova) == sorted(one["hosts"])
        assert DecisionLogReader(cloud.directory / "quiet").find([one["request"]])
        assert bool(found.berth) == bool(one["hosts"]), found
        assert (found.verdict is ShadowVerdict.BOTH_REFUSED) == (not one["hosts"])
    counts = Counter(each.verdict for each in compared.values())
    assert counts[ShadowVerdict.OTHER] == 0, compared
    printed = json.loads(printed_report(cloud, cloud.directory / "quiet", "-f", "json"))
    assert (printed["requests"], printed["compared"]) == (REQUESTS, REQUESTS)


def test_a_shadow_that_is_killed_disturbs_no_build_and_leaves_no_queue(cloud):
    shadow = cloud.start_shadow("killed")
    with ThreadPoolExecutor(1) as pool:
        building = pool.submit(cloud.run_nova, "nova_builds", REQUESTS)
        assert eventually(lambda: cloud.compared("killed") or building.done()), "nothing is compared"
        assert not building.done()
        shadow.kill()
        built = building.result()
    assert shadow.status == -signal.SIGKILL
    assert_all_built(built)
    assert eventually(lambda: not shadow_queues(cloud)), "a queue is left"
