"""Reports of workers, on a real pair of sockets."""

import os

import pytest

from scheduler.health.catalogue import FILTERED, WORKER_CPU, WORKER_MEMORY
from scheduler.health.counters import Counters
from scheduler.health.reporter import Reporter
from scheduler.health.reports import CellState, Report, ReportChannel, WorkerState, resident_memory

STATE = WorkerState(
    cells=(CellState("cell1", True, True, 1.5), CellState("cell2", False, False, None)),
    broker=True,
    api_database=False,
    gauges={"berth_compute_nodes": 7.0, "berth_mirror_age_seconds": 3.0},
)


@pytest.fixture
def channel():
    channel = ReportChannel()
    yield channel
    channel.close()


@pytest.fixture
def counters():
    return Counters()


@pytest.fixture
def reporter(channel, counters):
    return Reporter(3, channel, counters, lambda: STATE, cpu_clock=iter(range(100)).__next__)


def test_a_report_arrives_as_it_was_sent(channel):
    report = Report(1, 42, "serving", 2, STATE, {("berth_hosts_filtered", ("AFilter",)): [4.0]})
    assert channel.send(report)
    assert list(channel.received()) == [report]
    assert list(channel.received()) == []


def test_the_wait_for_a_report_ends_with_its_arrival(channel):
    channel.send(Report(1, 42, "serving", 0, STATE, {}))
    channel.wait(1000.0)
    assert len(list(channel.received())) == 1
    channel.wait(0.0)


def test_what_is_no_report_is_logged_and_the_next_ones_are_read(channel, caplog):
    channel._sender.send(b"nonsense")
    channel.send(Report(1, 42, "serving", 2, STATE, {}))
    assert [report.pid for report in channel.received()] == [42]
    assert "Skipped an unreadable report" in caplog.text


def test_sending_does_not_block_while_nothing_is_read(channel):
    report = Report(1, 42, "serving", 0, STATE, {})
    sent = 0
    while channel.send(report):
        sent += 1
        assert sent < 100_000
    assert sent == len(list(channel.received()))


def test_of_a_report_that_is_too_large_the_sign_of_life_is_sent(channel):
    cells = tuple(CellState("c" * 2000, True, True, 1.0) for _ in range(500))
    report = Report(1, 42, "serving", 0, WorkerState(cells=cells, broker=True), {("a", ()): [1.0]})
    assert not channel.send(report), "its counts were not sent"
    (received,) = channel.received()
    assert (received.pid, received.state.broker, received.state.cells, received.counts) == (42, True, (), {})


def test_a_reporter_sends_what_was_counted_since_its_last_report(channel, counters, reporter):
    counters.add(FILTERED, 2, "AFilter")
    reporter.phase = "serving"
    reporter.send()
    reporter.send()
    first, second = channel.received()
    assert first.state.gauges.pop(WORKER_MEMORY.name) > 0
    assert (first.worker, first.pid, first.phase, first.state) == (3, os.getpid(), "serving", STATE)
    assert first.counts == {("berth_hosts_filtered", ("AFilter",)): [2.0], (WORKER_CPU.name, ("3",)): [1]}
    assert second.counts == {(WORKER_CPU.name, ("3",)): [1]}


def test_counts_of_a_report_that_was_not_sent_are_in_the_next_one(channel, counters, reporter):
    while channel.send(Report(1, 42, "serving", 0, STATE, {})):
        pass
    counters.add(FILTERED, 2, "AFilter")
    reporter.send()
    list(channel.received())
    counters.add(FILTERED, 1, "AFilter")
    reporter.send()
    (report,) = channel.received()
    assert report.counts["berth_hosts_filtered", ("AFilter",)] == [3.0]


def test_a_state_that_cannot_be_read_does_not_keep_a_worker_from_reporting(channel, counters, caplog):
    states = iter([STATE])
    reporter = Reporter(3, channel, counters, states.__next__)
    reporter.send()
    reporter.send()
    assert [report.state.cells for report in channel.received()] == [STATE.cells] * 2
    assert "Cannot read the state of worker 3" in caplog.text


def test_the_last_report_of_a_worker_is_sent_at_its_end(channel, counters):
    reporter = Reporter(3, channel, counters, interval=1000.0)
    reporter.start()
    counters.add(FILTERED, 2, "AFilter")
    reporter.phase = "stopping"
    reporter.stop()
    assert list(channel.received())[-1].phase == "stopping"


@pytest.mark.parametrize("text", ["", "1", "a b"], ids=["empty", "short", "no number"])
def test_memory_that_the_system_does_not_tell_is_0(tmp_path, text):
    path = tmp_path / "statm"
    path.write_text(text)
    assert resident_memory(str(path)) == 0
    assert resident_memory(str(tmp_path / "absent")) == 0
    assert resident_memory() > 0
