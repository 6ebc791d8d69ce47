from types import SimpleNamespace

import pytest

from scheduler import conf as options
from scheduler import manager
from scheduler.cmd import scheduler_parts
from scheduler.health.counters import Counters
from scheduler.nova_service import first_scheduler, service_record
from scheduler.rpc import notifications, transport
from tests.support.calls import make_call
from tests.support.clock import Clock


@pytest.fixture
def make_conf(tmp_path):
    def make_conf(text=""):
        path = tmp_path / "nova.conf"
        path.write_text(f"[DEFAULT]\ntransport_url=rabbit://127.0.0.1:1/\n{text}")
        return options.load(["--config-file", str(path)])

    return make_conf


class Row:
    """Stands in for OwnService."""

    def __init__(self, conf, engines, created):
        self.beats = 0
        self.created = created

    def beat(self):
        self.beats += 1

    def leads(self):
        return True


@pytest.fixture
def serving(monkeypatch):
    monkeypatch.setattr(service_record, "OwnService", Row)
    hosts = SimpleNamespace(engines=object(), partition=SimpleNamespace(name=""))
    parts = SimpleNamespace(claims=SimpleNamespace(writer=None, states_of=None), placement=None)
    return SimpleNamespace(hosts=hosts, notifications=notifications.Notifications(()), parts=parts)


def periodics(conf, serving):
    return {work.name: work for work in scheduler_parts.make_periodics(conf, serving)}


def test_the_row_is_registered_at_once_and_beats_after_five_seconds(make_conf, serving):
    work = periodics(make_conf(), serving)["heartbeat"]
    assert (work.interval, work.delay) == (10, 5)
    assert work.call.__self__.beats == 1


def test_the_hosts_of_a_partition_are_compared_with_placement_after_a_minute(make_conf, serving, monkeypatch):
    serving.hosts.partition = SimpleNamespace(name="p", aggregates=frozenset)
    monkeypatch.setattr(scheduler_parts, "hosts_without_partition", lambda *_parts: [])
    serving.hosts.cells = serving.hosts.aggregates = None
    serving.hosts.snapshot = lambda _max_age: SimpleNamespace(rows=())
    work = periodics(make_conf(), serving)["partition members"]
    assert (work.interval, work.delay) == (600, 60)
    work.call()


def test_a_row_that_had_to_be_made_is_told(make_conf, serving):
    told = []
    serving.notifications.service_created = lambda context, row: told.append((context.is_admin, row))
    work = periodics(make_conf(), serving)["heartbeat"]
    work.call.__self__.created({"host": "me"})
    assert told == [(True, {"host": "me"})]


def test_silence_has_nothing_to_say_of_it(make_conf, serving):
    work = periodics(make_conf(), serving)["heartbeat"]
    assert work.call.__self__.created({"host": "me"}) is None


def test_without_a_report_interval_there_are_no_heartbeats(make_conf, serving):
    assert "heartbeat" not in periodics(make_conf("report_interval=0\n"), serving)


def test_given_up_builds_are_looked_for_each_minute(make_conf, serving):
    work = periodics(make_conf(), serving)["sweep"]
    assert (work.interval, 0 <= work.delay <= 60) == (60, True)


@pytest.mark.parametrize(
    ("text", "interval"),
    [
        ("[scheduler]\ndiscover_hosts_in_cells_interval=-1\n", None),
        ("[scheduler]\ndiscover_hosts_in_cells_interval=0\n", 60),
        ("[scheduler]\ndiscover_hosts_in_cells_interval=30\n", 30),
        ("periodic_enable=false\n[scheduler]\ndiscover_hosts_in_cells_interval=30\n", None),
    ],
)
def test_host_discovery(make_conf, serving, text, interval):
    found = periodics(make_conf(text), serving).get("host discovery")
    assert (found and found.interval) == interval


def test_discovery_begins_within_the_fuzzy_delay(make_conf, serving):
    text = "periodic_fuzzy_delay=0\nservice_down_time=5\n[scheduler]\ndiscover_hosts_in_cells_interval=30\n"
    found = periodics(make_conf(text), serving)["host discovery"]
    assert found.delay == 0
    assert isinstance(found.call.__self__, first_scheduler.FirstScheduler)


@pytest.mark.parametrize(
    ("text", "channels"), [("", 0), ("[oslo_messaging_notifications]\ndriver=noop\n", 1)]
)
def test_notifications_only_where_a_driver_is_set(make_conf, monkeypatch, text, channels):
    made, make = [], transport.notification_transport
    monkeypatch.setattr(transport, "notification_transport", lambda conf: made.append(conf) or make(conf))
    monkeypatch.setattr(scheduler_parts, "put_together", lambda *_: None)
    monkeypatch.setattr(scheduler_parts.Outside, "from_conf", lambda conf: None)
    monkeypatch.setattr(manager, "SchedulerManager", lambda conf, told, *_, **__: told)
    told = scheduler_parts.make_manager(make_conf(text), Counters())
    assert isinstance(told, notifications.Notifications)
    assert len(made) == channels


def make_server(make_conf, more="", claimer=None):
    parts = SimpleNamespace(claims=claimer or SimpleNamespace())
    serving = SimpleNamespace(outages=None, parts=parts)
    return scheduler_parts.make_server(make_conf(f"host=me\n{more}"), serving)


def test_the_server_listens_under_the_host_s_name(make_conf):
    built = make_server(make_conf)
    assert (built.topic, built._conf.host) == ("scheduler", "me")


def test_a_scheduler_of_a_partition_takes_its_calls_from_a_topic_of_the_partition(make_conf):
    more = "[berth]\npartition = p\n[berth_partition_p]\ncells = cell1\n"
    made = make_server(make_conf, more)
    assert made.topic == "berth.scheduler.p"


def test_the_watchdog_is_told_of_calls_that_nobody_begins_and_of_claims_that_get_on(make_conf):
    clock, claimer = Clock(), SimpleNamespace()
    built = make_server(make_conf, claimer=claimer)
    built.open_calls._clock = clock
    built.open_calls.add(make_call())
    claimer.on_event()
    clock.now += 100
    assert scheduler_parts.read_state(None, built).stalled == 100.0, (
        "threads are free, and none begins the call"
    )
    claimer.on_event()
    assert scheduler_parts.read_state(None, built).stalled == 0.0
