"""berth-status remove on a real RabbitMQ: takes what is Berth's, and nothing else."""

import io
import json

import kombu
import pytest

from scheduler import conf as configuration
from scheduler.operators.command import app
from scheduler.operators.status import main as status
from scheduler.rpc import explain, transport
from scheduler.stream.broker import BrokerOptions, StreamBroker, stream_of
from tests.support.deployment import KOLLA, write_configuration
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq

KINDS = {"classic": "", "kolla": KOLLA}
PARTITION = "[berth_partition_east]\naggregates = east\n"

#: Queues of nova that look like Berth's, or that Berth uses as well.
OF_NOVA = ("scheduler", "scheduler.ctl", "compute.berth", "reply_0123456789abcdef", "conductor")


class Explainer:
    """Answers nothing."""


@pytest.fixture
def config_file(tmp_path, rabbit_url, kind):
    return write_configuration(tmp_path, rabbit_url, KINDS[kind], PARTITION)


@pytest.fixture
def conf(config_file):
    return configuration.load([f"--config-file={config_file}"])


@pytest.fixture
def explainer(conf):
    """A function that starts a worker of a host, which answers questions until it is stopped."""
    started = []

    def start(host):
        conf.set_override("host", host)
        bus = transport.rpc_transport(conf)
        server = explain.build(conf, bus, Explainer(), 0, 1)
        conf.clear_override("host")
        server.start()
        started.append((server, bus))
        return server

    yield start
    for server, bus in started:
        server.stop()
        server.wait()
        bus.cleanup()


@pytest.fixture
def broker(conf, rabbit_url):
    """The broker, with queues of nova."""
    options = BrokerOptions.from_conf(conf)
    with kombu.Connection(rabbit_url.replace("rabbit://", "amqp://", 1)) as connection:
        for name in OF_NOVA:
            connection.channel().queue_declare(name, durable=True, auto_delete=False)
    return options


@pytest.fixture
def remove(config_file):
    def remove(*argv):
        output, errors = io.StringIO(), io.StringIO()
        argv = ["remove", *argv, "--config-file", str(config_file), "-f", "json"]
        code = status.main(argv, stdout=output, stderr=errors)
        return code, json.loads(output.getvalue() or "[]"), errors.getvalue()

    return remove


def streams(options):
    for partition in ("", "east"):
        StreamBroker(options, "test", stream_of(partition)).connect("test").close()


def results(rows):
    return {row["Name"]: row["Result"] for row in rows}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_berths_is_removed_and_nothing_else(
    conf, explainer, broker, remove, rabbit, rabbit_url, kind
):
    vhost = rabbit_url.rpartition("/")[2]
    server = explainer("ctl")
    streams(broker)
    code, _, errors = remove()
    assert code == app.NOT_RUN
    assert "A scheduler runs on this host and consumes from berth-explain.ctl.0" in errors
    server.stop()
    server.wait()
    assert eventually(lambda: not rabbit.consumers(vhost, "berth-explain"), 30)
    before = sorted(rabbit.queues(vhost))
    code, rows, _ = remove("--dry-run")
    assert code == 1
    named = {name for name, result in results(rows).items() if result == "would be removed"}
    assert named >= {"berth.decisions", "berth.decisions.east", "berth-explain", "berth-explain.ctl.0"}
    assert sorted(rabbit.queues(vhost)) == before
    code, rows, errors = remove()
    assert (code, errors) == (0, "")
    assert {name for name, result in results(rows).items() if result == "removed"} >= named
    left = [name for name in rabbit.queues(vhost) if not name.startswith("berth-explain_fanout_")]
    assert sorted(left) == sorted(OF_NOVA)
    assert remove()[:2] == (0, [])


@pytest.mark.parametrize("kind", ["kolla"])
def test_what_others_still_use_is_kept(conf, explainer, broker, remove, rabbit, rabbit_url, kind):
    mine, _ = explainer("ctl"), explainer("other")
    streams(broker)
    mine.stop()
    mine.wait()
    vhost = rabbit_url.rpartition("/")[2]
    assert eventually(lambda: not rabbit.consumers(vhost, "berth-explain.ctl.0"), 30)
    code, rows, _ = remove()
    found = results(rows)
    assert (code, found["berth-explain.ctl.0"]) == (1, "removed")
    assert "consumers of other schedulers use it" in found["berth-explain"]
    assert {"berth-explain", "berth-explain.other.0"} <= set(rabbit.queues(vhost))
    assert "berth-explain.ctl.0" not in rabbit.queues(vhost)


@pytest.mark.parametrize("kind", ["classic"])
def test_a_request_queue_of_a_partition_with_calls_is_kept(conf, broker, remove, rabbit_url, kind):
    with kombu.Connection(rabbit_url.replace("rabbit://", "amqp://", 1)) as connection:
        channel = connection.channel()
        channel.queue_declare("berth.scheduler.east", durable=True, auto_delete=False)
        kombu.Producer(channel).publish("{}", routing_key="berth.scheduler.east")
    assert eventually(
        lambda: results(remove("--dry-run")[1])["berth.scheduler.east"].startswith("kept: 1"), 10
    )
