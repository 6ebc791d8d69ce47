"""Schedulers that share decisions through a real RabbitMQ, without anything else of a scheduler."""

import contextlib
from functools import partial
import uuid

import numpy as np

from scheduler.hosts.pending import PendingPlacements
from scheduler.stream import broker, loops
from scheduler.stream.broker import StreamBroker, broker_hosts
from scheduler.stream.decision_stream import DecisionStream
from scheduler.stream.records import encode
from scheduler.stream.shared_decisions import LocalState
from tests.builders import make_host, make_table, uuid_of
from tests.support.options import make_conf
from tests.support.waiting import eventually
from tests.unit.stream.test_shared_decisions import ONE, Mirror

H1, H2 = uuid_of("h1"), uuid_of("h2")
PATIENCE = 60


def broker_of(url, first=0, **rabbit):
    """The broker of a transport URL; its hosts are tried from the ``first`` on."""
    options = {f"oslo_messaging_rabbit__{name}": value for name, value in rabbit.items()}
    found = broker_hosts(make_conf(_transport_url=url, **options))
    return StreamBroker(found, "test", choice=lambda _hosts: first)


def hurry(monkeypatch):
    """Let what is waited for take less time than in a daemon."""
    monkeypatch.setattr(loops, "SILENT_AFTER", 3.0)
    monkeypatch.setattr(loops, "RETRY_INTERVAL", 0.2)
    monkeypatch.setattr(loops, "BEAT_INTERVAL", 0.5)
    monkeypatch.setattr(broker, "CONFIRM_TIMEOUT", 1.0)


class Scheduler:
    """One scheduler of two hosts."""

    def __init__(self, stream, name):
        self.table = make_table([make_host(host) for host in ("h1", "h2")])
        self.pending, self.mirror = PendingPlacements(), Mirror()
        state = LocalState(self.pending, lambda: self.table, self.mirror)
        self.name = name
        self.stream = DecisionStream(stream, state, name, name)

    def alive(self):
        return self.stream.membership.alive()

    def decide(self, row=0):
        """Place one more instance; returns its uuid."""
        instance = str(uuid.uuid4())
        self.pending.add(instance, self.table, row, ONE)
        return instance

    def knows(self, *instances):
        return all(self.pending.node_of(instance) for instance in instances)

    def count(self):
        """How many instances are expected on the first host."""
        return int(self.pending.overlay(self.table, np.array([0]))[3, 0])


class Schedulers(contextlib.ExitStack):
    """Starts schedulers, and stops them in the end."""

    def start(self, stream, name, timeout=PATIENCE):
        made = Scheduler(stream, name)
        self.callback(made.stream.stop)
        made.stream.start()
        assert made.stream.wait_until_caught_up(timeout)
        return made


def see_each_other(*schedulers):
    """Wait until each of them knows of a new decision of each other one.

    What one wrote to a stream that was just being deleted went with it, so there is a second one then.
    """
    for one in schedulers:
        for other in schedulers:
            assert any(eventually(partial(other.knows, one.decide()), PATIENCE) for _ in range(2)), (
                one.name,
                other.name,
            )
    return True


def write(stream, *messages):
    """Write records, or bytes as they are."""
    connection = stream.connect("test")
    for message in messages:
        for body in [message] if isinstance(message, bytes) else [one for one, _ in encode([message])]:
            connection.publish(body)
    connection.close()
