"""The commands of the page install on a real RabbitMQ: they take what is Berth's, and nothing else."""

import os
from pathlib import Path
import subprocess
import textwrap

import kombu
import pytest

from scheduler import conf as configuration
from scheduler.rpc import explain, transport
from scheduler.rpc.bus import Bus
from scheduler.stream.broker import StreamBroker, broker_hosts, stream_of
from tests.support.deployment import KOLLA, write_configuration
from tests.support.waiting import eventually

pytestmark = pytest.mark.rabbitmq

#: Queues of nova that look like Berth's, or that Berth uses as well.
OF_NOVA = {"scheduler", "scheduler.ctl", "compute.berth", "reply_0123456789abcdef", "conductor"}


def commands(vhost):
    text = Path("doc/source/install.rst").read_text().partition("    vhost=/")[2]
    return f"vhost={vhost}\n" + textwrap.dedent(text.partition("    done\n")[0].partition("\n")[2]) + "done\n"


def shell(rabbit, script):
    variables = {**os.environ, **rabbit.variables}
    return subprocess.run(
        ["bash", "-c", script], env=variables, capture_output=True, text=True, timeout=120, check=True
    ).stdout


def test_what_is_berths_and_unused_is_removed(tmp_path, rabbit, rabbit_url):
    conf = configuration.load([f"--config-file={write_configuration(tmp_path, rabbit_url, KOLLA)}"])
    vhost = rabbit_url.rpartition("/")[2]
    with kombu.Connection(rabbit_url.replace("rabbit://", "amqp://", 1)) as connection:
        channel = connection.channel()
        for name in (*OF_NOVA, "berth.scheduler.east", "berth.scheduler.west"):
            channel.queue_declare(name, durable=True, auto_delete=False)
        kombu.Producer(channel).publish("{}", routing_key="berth.scheduler.east")
    listed = "rabbitmqctl -q -p {} list_queues name consumers"
    hosts = broker_hosts(conf)
    for partition in ("", "east"):
        stream = StreamBroker(hosts, "test", stream_of(partition)).connect("test")
        stream.publish(b"x")
        stream.close()
    bus = transport.rpc_transport(conf)
    server = explain.build(conf, Bus(bus, 1 << 20), {})
    server.start()
    try:
        # a quorum queue tells its consumers some seconds late
        assert eventually(lambda: "berth-explain.ctl\t1" in shell(rabbit, listed.format(vhost)), 60)
        output = shell(rabbit, commands(vhost))
        used = {name for name in rabbit.queues(vhost) if name.startswith("berth-explain")}
        assert set(rabbit.queues(vhost)) == OF_NOVA | {"berth.scheduler.east"} | used
        assert used >= {"berth-explain", "berth-explain.ctl"}
        assert "kept: berth.scheduler.east has 1 calls and 0 consumers" in output
    finally:
        server.stop()
        server.wait()
        bus.cleanup()
