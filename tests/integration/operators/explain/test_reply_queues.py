"""What berth-explain leaves on a real RabbitMQ: nothing, whatever kinds of queues the options ask for."""

import contextlib
import json
import signal
import threading

import pytest

from scheduler import conf as configuration
from scheduler.rpc import explain, transport
from scheduler.rpc.bus import Bus
from tests.support import forked
from tests.support.deployment import KOLLA, QUORUM, write_configuration
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq

KINDS = {"defaults": "", "quorum": QUORUM, "kolla": f"use_queue_manager = true\n{KOLLA}"}


class Answering:
    """Answers when it is allowed to."""

    def __init__(self):
        self.may_answer = threading.Event()
        self.asked = threading.Semaphore(0)

    def decisions(self, **_wanted):
        self.asked.release()
        assert self.may_answer.wait(60)
        return []


@pytest.fixture
def config_file(tmp_path, rabbit_url, kind):
    return write_configuration(tmp_path, rabbit_url, KINDS[kind])


@pytest.fixture
def answering(config_file):
    """What answers for a scheduler that listens."""
    conf = configuration.load([f"--config-file={config_file}"])
    conf.set_override("use_queue_manager", False, "oslo_messaging_rabbit")
    # A reply to a command that was killed is tried as long
    conf.set_override("kombu_missing_consumer_retry_timeout", 1, "oslo_messaging_rabbit")
    bus = transport.rpc_transport(conf)
    made = Answering()
    server = explain.build(conf, Bus(bus, 1 << 20), {"decisions": made.decisions})
    server.start()
    yield made
    server.stop()
    server.wait()
    bus.cleanup()


@pytest.fixture
def command(config_file):
    """Start berth-explain list; it is killed at the end if it still runs."""
    words = ("-m", "scheduler.operators.programs", "berth-explain", "--config-file", config_file)
    with contextlib.ExitStack() as started:
        yield lambda: started.enter_context(forked.Running(*words, "list", "--timeout", "60", "-f", "json"))


def replies(rabbit, url):
    types = rabbit.queue_types(url.rpartition("/")[2])
    return [kind for name, kind in types.items() if name.startswith("reply_")]


@pytest.mark.parametrize("kind", KINDS)
def test_the_reply_queue_of_a_command_is_classic_and_ends_with_it(
    answering, command, rabbit, rabbit_url, kind
):
    before = sorted(rabbit.queues(rabbit_url.rpartition("/")[2]))
    running = [command(), command()]
    assert answering.asked.acquire(timeout=60)
    assert answering.asked.acquire(timeout=60)
    assert replies(rabbit, rabbit_url) == ["classic", "classic"]
    answering.may_answer.set()
    for one in running:
        output, errors = one.communicate(timeout=60)
        assert (one.poll(), json.loads(output)) == (0, []), errors
    assert eventually(lambda: sorted(rabbit.queues(rabbit_url.rpartition("/")[2])) == before, 10)


@pytest.mark.parametrize("kind", ["kolla"])
def test_a_command_that_is_killed_leaves_no_queue(answering, command, rabbit, rabbit_url, kind):
    before = sorted(rabbit.queues(rabbit_url.rpartition("/")[2]))
    running = command()
    assert answering.asked.acquire(timeout=60)
    assert len(replies(rabbit, rabbit_url)) == 1
    running.send_signal(signal.SIGKILL)
    assert eventually(lambda: sorted(rabbit.queues(rabbit_url.rpartition("/")[2])) == before, 10)
    answering.may_answer.set()
