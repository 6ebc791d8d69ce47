"""The decision stream on a RabbitMQ of three nodes that fail."""

import pytest

from scheduler.stream.broker import StreamUnavailable
from tests.integration.stream.schedulers import PATIENCE, Schedulers, broker_of, hurry, see_each_other
from tests.integration.stream.test_decision_stream import declare, delete
from tests.support.waiting import eventually

pytestmark = [pytest.mark.rabbitmq, pytest.mark.slow]


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    hurry(monkeypatch)


@pytest.fixture
def schedulers(cluster):
    delete(cluster.url(0))
    with Schedulers() as started:
        yield started


def refusal(url, **options):
    """Why the first host cannot be used; "" if it can."""
    try:
        connection = broker_of(url, **options).connect("test")
        connection.subscribe("5m")
        connection.close()
    except StreamUnavailable as error:
        return str(error)
    return ""


@pytest.mark.parametrize("name", ["certified", "another"])
def test_the_certificate_of_each_host_is_checked_against_its_own_name(cluster, schedulers, name):
    """They are certified for the name localhost, and reached by it and by address."""
    url = cluster.url(0, 1, tls=True).replace("127.0.0.1", "localhost", 1)
    tls = {"ssl": True, "ssl_ca_file": cluster.ca_file}
    stream = broker_of(url, first=int(name == "another"), **tls)
    if name == "another":
        assert eventually(
            lambda: "certificate" in refusal(url.replace("localhost", "127.0.0.1"), **tls), PATIENCE
        )
    see_each_other(schedulers.start(stream, "a"), schedulers.start(stream, "b"))


def test_a_host_without_a_replica_is_passed_over(cluster, schedulers):
    declare(cluster.url(0), **{"x-queue-type": "stream", "x-initial-cluster-size": 1})
    assert eventually(lambda: "replica" in refusal(cluster.url(1)), PATIENCE)
    see_each_other(*(schedulers.start(broker_of(cluster.url(), first), f"s{first}") for first in range(3)))


def test_when_the_leader_is_killed_nothing_is_lost(cluster, schedulers):
    one, another = (schedulers.start(broker_of(cluster.url(), first), f"s{first}") for first in (0, 1))
    decided = [one.decide() for _ in range(50)] + [another.decide() for _ in range(50)]
    cluster.nodes[0].kill()
    try:
        decided += [one.decide() for _ in range(50)] + [another.decide() for _ in range(50)]
        assert eventually(lambda: one.knows(*decided) and another.knows(*decided), PATIENCE)
        assert one.count() == another.count() == 200
        assert see_each_other(one, another)
        assert (one.stream.status().lost, another.stream.status().lost) == (0, 0)
    finally:
        cluster.nodes[0].start()
        cluster.nodes[0].wait()


def test_a_stream_without_its_majority_delays_nothing_and_all_is_read_once_it_is_back(cluster, schedulers):
    one, another = (schedulers.start(broker_of(cluster.url(), first), f"s{first}") for first in (0, 1))
    decided = [one.decide() for _ in range(100)]
    assert eventually(lambda: another.knows(*decided), PATIENCE)
    for node in cluster.nodes[1:]:
        node.kill()
    decided += [one.decide(), another.decide()]
    assert eventually(
        lambda: not one.stream.status().in_step and not another.stream.status().in_step, PATIENCE
    )
    assert not one.knows(decided[-1])
    cluster.nodes[0].kill()
    for node in cluster.nodes:
        node.start()
    for node in cluster.nodes:
        node.wait()
    late = schedulers.start(broker_of(cluster.url(), 2), "late")
    for each in (one, another, late):
        assert eventually(lambda: each.knows(*decided), PATIENCE), each.name  # noqa: B023
        assert each.count() == 102
    assert see_each_other(one, another, late)
