"""The decision stream on a real RabbitMQ of one node."""

import time
from urllib.parse import urlsplit

import kombu
import pytest

from scheduler.hosts.pending import LIFETIME
from scheduler.stream import broker, decision_stream
from scheduler.stream.records import Kind, encode
from tests.integration.stream.schedulers import (
    H1,
    PATIENCE,
    Schedulers,
    broker_of,
    hurry,
    see_each_other,
    write,
)
from tests.support.stream_records import record
from tests.support.waiting import eventually
from tools.rig.tcp_proxy import Direction, Passage, TcpProxy

pytestmark = pytest.mark.rabbitmq


@pytest.fixture
def schedulers():
    with Schedulers() as started:
        yield started


@pytest.fixture(scope="module")
def url_of_module(rabbit):
    return rabbit.vhost()


@pytest.fixture
def rabbit_url(url_of_module):
    """Transport URL of a virtual host without the stream; a virtual host for each test would take longer."""
    delete(url_of_module)
    return url_of_module


@pytest.fixture
def stream(rabbit_url):
    return broker_of(rabbit_url)


def declare(url, **arguments):
    """Create the queue with other arguments than the schedulers' own."""
    with kombu.Connection(url.replace("rabbit://", "amqp://")) as connection:
        connection.channel().queue_declare(broker.QUEUE, durable=True, auto_delete=False, arguments=arguments)


def delete(url):
    with kombu.Connection(url.replace("rabbit://", "amqp://")) as connection:
        connection.channel().queue_delete(broker.QUEUE)


def test_each_decision_lies_over_the_table_of_every_other_scheduler(schedulers, stream):
    one, another, third = (schedulers.start(stream, name) for name in "abc")
    assert eventually(lambda: all(each.alive() == ["a", "b", "c"] for each in (one, another, third)))
    instance = one.decide()
    assert eventually(lambda: another.knows(instance) and third.knows(instance))
    one.stream.sharing.claimed(instance, {H1: {"resources": {"VCPU": 1}}})
    assert eventually(lambda: another.mirror.seen == [("claimed", {H1: {"resources": {"VCPU": 1}}})])
    one.stream.sharing.released(instance, {H1: {"resources": {"VCPU": 1}}})
    assert eventually(lambda: not another.knows(instance) and not third.knows(instance))
    refused = another.decide()
    assert eventually(lambda: one.knows(refused))
    another.pending.remove([refused])
    assert eventually(lambda: not one.knows(refused))
    gone = third.decide()
    assert eventually(lambda: one.knows(gone))
    one.stream.sharing.gone(gone)
    assert eventually(lambda: not another.knows(gone))
    for each in (one, another, third):
        status = each.stream.status()
        assert (status.lost, status.dropped, status.unreadable, status.in_step) == (0, 0, 0, True)


def test_a_scheduler_that_starts_reads_up_to_its_own_hello(schedulers, stream):
    old = record(sender="old", at=time.time() - LIFETIME - 1, instance="old")
    write(stream, old, *(record(counter=n, instance=f"i{n}") for n in range(300)))
    one = schedulers.start(stream, "a")
    assert len(one.pending) == 300  # at the very moment at which it may take requests
    assert one.alive() == ["a"]


def test_the_existing_stream_is_used_whatever_its_arguments(schedulers, stream, rabbit_url):
    declare(rabbit_url, **{"x-queue-type": "stream", "x-max-age": "2h"})
    see_each_other(schedulers.start(stream, "a"), schedulers.start(stream, "b"))


def test_the_stream_keeps_little_more_than_its_age(stream, rabbit, rabbit_url, monkeypatch):
    """Whole segments are removed: with an age of a second at most two of them stay, and what is younger."""
    monkeypatch.setitem(broker.ARGUMENTS, "x-max-age", "1s")
    connection, ready = stream.connect("test"), []
    ((body, _),) = encode([record(kind=Kind.BEAT)])
    for number in range(3000):
        connection.publish(body)
        if number % 500 == 499:
            time.sleep(1.2)
            ready.append(rabbit.messages(rabbit_url.rpartition("/")[2], broker.QUEUE))
    connection.close()
    assert max(ready) < 2000, ready
    assert ready[-1] < 1500, ready


def test_a_queue_that_is_no_stream_is_neither_read_nor_written(
    schedulers, stream, rabbit, rabbit_url, caplog
):
    declare(rabbit_url)
    with pytest.raises(AssertionError):
        schedulers.start(stream, "a", timeout=10_000)  # a broker that refuses is not waited for
    assert caplog.text.count(decision_stream.UNAVAILABLE) == 1
    assert "classic_queue" in caplog.text
    assert rabbit.messages(rabbit_url.rpartition("/")[2], broker.QUEUE) == 0


def test_a_stream_that_is_deleted_is_created_and_read_again(schedulers, stream, rabbit_url):
    one, another = schedulers.start(stream, "a"), schedulers.start(stream, "b")
    before = one.decide()
    delete(rabbit_url)
    assert see_each_other(one, another)
    assert eventually(lambda: another.stream.status().in_step, PATIENCE)
    assert one.knows(before)


def test_a_stream_that_is_deleted_and_created_at_once_does_not_go_silent(schedulers, stream, rabbit_url):
    one, another = schedulers.start(stream, "a"), schedulers.start(stream, "b")
    for _ in range(2):
        delete(rabbit_url)
        declare(rabbit_url, **{"x-queue-type": "stream"})
    assert see_each_other(one, another)


def test_closed_connections_are_made_again_and_nothing_counts_twice(schedulers, stream, rabbit, rabbit_url):
    one, another = schedulers.start(stream, "a"), schedulers.start(stream, "b")
    decided = [one.decide() for _ in range(20)]
    rabbit.close_connections(rabbit_url.rpartition("/")[2])
    decided += [one.decide() for _ in range(20)]
    assert eventually(lambda: another.knows(*decided), PATIENCE)
    assert another.count() == 40
    assert another.stream.status().lost == 0


@pytest.mark.parametrize("silent", ["reader", "writer"])
def test_a_host_that_falls_silent_is_left_for_the_next(schedulers, stream, rabbit_url, monkeypatch, silent):
    """Connections stay open, and nothing comes through them any more."""
    hurry(monkeypatch)
    address = urlsplit(rabbit_url)
    with TcpProxy(address.port) as proxy:
        hosts = [f"{address.netloc.rpartition(':')[0]}:{port}" for port in (proxy.port, address.port)]
        first = 0 if silent == "reader" else 1  # readers connect first
        through = broker_of(f"rabbit://{','.join(hosts)}{address.path}", first)
        one, another = schedulers.start(through, "a"), schedulers.start(stream, "b")
        proxy.disturb(Passage.LOSE, *Direction)
        assert see_each_other(one, another)
        assert eventually(lambda: one.stream.status().in_step, PATIENCE)


def test_publishing_never_waits_for_the_broker(schedulers, stream, rabbit_url):
    """Not even for one that stops in the middle of a message, until all is published."""
    address = urlsplit(rabbit_url)
    with TcpProxy(address.port) as proxy:
        userinfo = address.netloc.rpartition(":")[0]
        one = schedulers.start(broker_of(f"rabbit://{userinfo}:{proxy.port}{address.path}"), "a")
        proxy.disturb(Passage.HOLD, *Direction)
        decided = [one.decide() for _ in range(1000)]
        proxy.heal()
        late = schedulers.start(stream, "b")
        assert eventually(lambda: late.knows(*decided), PATIENCE)
