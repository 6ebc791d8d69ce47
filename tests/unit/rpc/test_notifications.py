import threading

import oslo_messaging as messaging
import pytest

from scheduler import objects
from scheduler.rpc import notifications, payloads, transport
from scheduler.rpc.context import RequestContext
from scheduler.rpc.notifications import Channel
from tests.support.wire_examples import spec

TOKEN = "gAAAAABo-TOKEN"


@pytest.fixture
def context():
    return RequestContext(user_id="alice", auth_token=TOKEN, remote_address="198.51.100.7", roles=["member"])


@pytest.fixture
def request_spec(context):
    return objects.hydrate(spec("boot_anti_affinity_numa_pci"), context)


class Listener:
    """Collects what arrives on the topics."""

    def __init__(self, conf, topics):
        self.seen = []
        self.arrived = threading.Condition()
        self._transport = transport.notification_transport(conf)
        targets = [messaging.Target(topic=topic) for topic in topics]
        self._listener = messaging.get_notification_listener(self._transport, targets, [self])
        self._listener.start()

    def info(self, ctxt, publisher_id, event_type, payload, metadata):
        with self.arrived:
            self.seen.append((publisher_id, event_type, payload, ctxt))
            self.arrived.notify_all()

    def wait_for(self, number):
        with self.arrived:
            assert self.arrived.wait_for(lambda: len(self.seen) >= number, timeout=20)
        return self.seen

    def stop(self):
        self._listener.stop()
        self._listener.wait()


def sender(conf):
    return notifications.build(conf)


@pytest.mark.parametrize(
    ("form", "publishers"),
    [
        ("unversioned", ["scheduler.sched1"]),
        ("versioned", ["nova-scheduler:sched1"]),
        ("both", ["scheduler.sched1", "nova-scheduler:sched1"]),
    ],
)
def test_forms(conf, context, request_spec, form, publishers):
    conf.set_override("driver", ["messagingv2"], "oslo_messaging_notifications")
    conf.set_override("notification_format", form, "notifications")
    listener = Listener(conf, ["notifications", "versioned_notifications"])
    try:
        sending = sender(conf)
        sending.select_destinations_start(context, request_spec)
        sending.select_destinations_end(context, request_spec)
        seen = listener.wait_for(2 * len(publishers))
        sending.stop(20)
    finally:
        listener.stop()
    for publisher in publishers:
        events = [event for who, event, _, _ in seen if who == publisher]
        assert events == [notifications.START, notifications.END]
    assert {who for who, *_ in seen} == set(publishers)
    assert TOKEN not in str(seen)
    assert all(ctxt["user_id"] == "alice" for *_, ctxt in seen)


def test_nothing_by_default(conf, context, request_spec):
    sending = sender(conf)
    sending.select_destinations_start(context, request_spec)
    sending.service_created(context, {"host": "sched1"})
    sending.stop(1)
    assert not sending._loop.running


def test_service_created(context):
    notifier = Notifier()
    sending = notifications.Notifications(
        [
            Channel(notifier, payloads.unversioned_request),
            Channel(notifier, payloads.versioned_request, payloads.versioned_service),
        ]
    )
    sending.service_created(context, {"host": "sched1", "binary": "nova-scheduler", "secret": "x"})
    sending.stop(20)
    [(event, payload)] = notifier.sent
    assert event == "service.create"
    assert payload["nova_object.name"] == "ServiceStatusPayload"
    assert payload["nova_object.data"]["host"] == "sched1"
    assert "secret" not in payload["nova_object.data"]


class Notifier:
    """A broker that can be away, or refuse."""

    def __init__(self):
        self.sent = []
        self.there = threading.Event()
        self.there.set()
        self.fails = False

    def info(self, context, event, payload):
        assert self.there.wait(20)
        if self.fails:
            raise ConnectionError("refused")
        self.sent.append((event, payload))


def echo(subject):
    return subject


def test_a_broker_that_is_away_stalls_nothing(context, caplog):
    notifier = Notifier()
    notifier.there.clear()
    sending = notifications.Notifications([Channel(notifier, echo)], most_waiting=3)
    for number in range(20):
        sending.select_destinations_start(context, number)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    notifier.there.set()
    sending.stop(20)
    assert 3 <= len(notifier.sent) <= 4
    assert [payload for _, payload in notifier.sent] == sorted(payload for _, payload in notifier.sent)


def test_stop_does_not_wait_for_a_broker_that_is_away(context):
    notifier = Notifier()
    notifier.there.clear()
    sending = notifications.Notifications([Channel(notifier, echo)], most_waiting=2)
    for number in range(4):
        sending.select_destinations_start(context, number)
    sending.stop(0.01)
    sending.stop(0.01)
    assert notifier.sent == []
    notifier.there.set()


def test_one_failure_does_not_end_the_others(context, caplog):
    notifier = Notifier()
    notifier.fails = True
    sending = notifications.Notifications([Channel(notifier, echo)])
    sending.select_destinations_start(context, 1)
    sending.stop(20)
    assert "refused" in caplog.text
    notifier.fails = False
    sending.select_destinations_start(context, 2)
    sending.stop(20)
    assert [payload for _, payload in notifier.sent] == [2]


def test_after_a_failed_thread_start_the_next_notification_starts_it(context, caplog, monkeypatch):
    notifier = Notifier()
    sending = notifications.Notifications([Channel(notifier, echo)])
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        sending.select_destinations_start(context, 1)
    assert "Cannot start the notification thread" in caplog.text
    sending.select_destinations_start(context, 2)
    sending.stop(20)
    assert [payload for _, payload in notifier.sent] == [1, 2]


def no_thread(self):
    raise RuntimeError("can't start new thread")


def test_failures_to_send_are_logged_once_in_an_interval(context, caplog):
    notifier = Notifier()
    notifier.fails = True
    sending = notifications.Notifications([Channel(notifier, echo)])
    for number in range(50):
        sending.select_destinations_start(context, number)
    sending.stop(20)
    assert [record.levelname for record in caplog.records] == ["WARNING"]


def test_a_payload_that_cannot_be_made_does_no_harm(context, caplog):
    sending = notifications.Notifications([Channel(Notifier(), payloads.versioned_request)])
    sending.select_destinations_start(context, None)
    assert "Cannot make notification" in caplog.text


def test_payload_is_that_of_the_moment(context, request_spec):
    notifier = Notifier()
    notifier.there.clear()
    sending = notifications.Notifications([Channel(notifier, payloads.versioned_request)])
    sending.select_destinations_start(context, request_spec)
    request_spec.instance_uuid = "later"
    notifier.there.set()
    sending.stop(20)
    assert notifier.sent[0][1]["nova_object.data"]["instance_uuid"].startswith("e79c5c7c")
