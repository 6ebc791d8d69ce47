import logging
import sys

import pytest

from scheduler import logs
from scheduler.logs import OutageLog, RateLimitedLogger, brief

LOG = logging.getLogger("outage")


@pytest.fixture
def outage(clock, caplog):
    caplog.set_level(logging.INFO)
    return OutageLog(LOG, "The cellar cannot be entered", "The cellar is open again", clock)


def test_a_failure_that_repeats_is_logged_once(outage, caplog):
    for number in range(1000):
        outage.report_failure(OSError(f"flooded, {number} cm"))
    assert caplog.messages == ["The cellar cannot be entered: flooded, 0 cm"]
    assert caplog.records[0].levelno == logging.ERROR


def test_an_error_of_another_class_is_logged(outage, caplog):
    outage.report_failure(OSError("flooded"))
    outage.report_failure(ValueError("on fire"))
    assert [text.partition(": ")[2] for text in caplog.messages] == ["flooded", "on fire"]


def test_errors_that_alternate_are_logged_once_each(outage, caplog):
    """As of a database that is unavailable: the error of a probe, and that of its circuit breaker."""
    for _ in range(10):
        outage.report_failure(OSError("flooded"))
        outage.report_failure(ValueError("on fire"))
    assert [text.partition(": ")[2] for text in caplog.messages] == ["flooded", "on fire"]


def test_a_failure_that_goes_on_is_logged_again_after_the_interval(outage, clock, caplog):
    outage.report_failure(OSError("flooded"))
    clock.now += logs.REMINDER_INTERVAL - 1
    outage.report_failure(OSError("flooded"))
    assert len(caplog.messages) == 1
    clock.now += 1
    outage.report_failure(OSError("flooded"))
    assert len(caplog.messages) == 2


def test_recovery_is_logged_once_and_the_next_failure_again(outage, caplog):
    outage.report_success()
    assert caplog.messages == []
    outage.report_failure(OSError("flooded"))
    outage.report_success()
    outage.report_success()
    outage.report_failure(OSError("flooded"))
    assert caplog.messages == [
        "The cellar cannot be entered: flooded",
        "The cellar is open again",
        "The cellar cannot be entered: flooded",
    ]


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("away\n[SQL: SELECT 1]\n(Background on this error)"), "away"),
        (OSError("away"), "away"),
        (OSError(), "OSError"),
        (OSError("\nsecond line"), "OSError"),
    ],
)
def test_brief_is_the_first_line_or_the_class(error, text):
    assert brief(error) == text


@pytest.fixture
def outages(clock, caplog):
    caplog.set_level(logging.INFO)
    return OutageLog(LOG, "Cellar %s cannot be entered", "Cellar %s is open again", clock)


def test_outages_are_logged_once_for_each_key(outages, caplog):
    for _ in range(3):
        for key in ("east", "west"):
            outages.report_failure(OSError("flooded"), key)
    outages.report_success("east")
    outages.report_success("east")
    outages.report_success("north")
    outages.report_failure(OSError("flooded"), "east")
    assert caplog.messages == [
        "Cellar east cannot be entered: flooded",
        "Cellar west cannot be entered: flooded",
        "Cellar east is open again",
        "Cellar east cannot be entered: flooded",
    ]


def test_an_outage_that_goes_on_is_logged_again_after_the_interval(outages, clock, caplog):
    outages.report_failure(OSError("flooded"), "east")
    clock.now += logs.REMINDER_INTERVAL
    outages.report_failure(OSError("flooded"), "east")
    assert len(caplog.messages) == 2


def test_one_warning_of_a_kind_is_logged_in_an_interval(clock, caplog):
    limited = RateLimitedLogger(LOG, interval=10.0, clock=clock)
    start = clock.now
    with caplog.at_level(logging.DEBUG):
        for second in (0, 1, 2, 11, 12):
            clock.now = start + second
            limited.warning("away", "no answer %d", second)
        limited.warning("other", "something else")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "no answer 0"),
        ("DEBUG", "no answer 1"),
        ("DEBUG", "no answer 2"),
        ("WARNING", "no answer 11 (and 2 more like this)"),
        ("DEBUG", "no answer 12"),
        ("WARNING", "something else"),
    ]


def test_kinds_of_warnings_are_remembered_up_to_a_bound(clock):
    limited = RateLimitedLogger(LOG, clock=clock, max_kinds=2)
    admitted = [limited.admit(kind) for kind in ("a", "b", "b", "c", "b", "a")]
    assert admitted == [0, 0, None, 0, None, 0]


@pytest.mark.parametrize(
    ("message", "arguments", "seen"),
    [
        ("plain %s", ("text",), "plain text"),
        ("%s", ("a\r\nb",), r"a\r\nb"),
        ("%s", ("\ud800 \x1b[2J",), r"\ud800 \x1b[2J"),
        ("caf\u00e9", (), "caf\u00e9"),
    ],
)
def test_control_characters_of_messages_are_escaped(message, arguments, seen):
    record = logs.OneLineRecord("name", logging.INFO, __file__, 1, message, arguments, None)
    record.error_summary = message % arguments
    assert (record.getMessage(), record.error_summary) == (seen, seen)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("amqp://nova:secret@broker:5672/", "amqp://***@broker:5672/"),
        ("see http://host:8778/path?at=me@home", "see http://host:8778/path?at=me@home"),
        ("see http://host/path?at=me@home", "see http://host/path?at=me@home"),
        ("mysql://nova:pa/ss@h/nova", "mysql://***@h/nova"),
        ("mysql+pymysql://nova:12/ss@h/nova", "mysql+pymysql://***@h/nova"),
        ("mysql://nova:s3cret@pass@h/nova", "mysql://***@h/nova"),
        ("http://nova:pa/ss@keystone/v3", "http://***@keystone/v3"),
        ("http://nova:pa@ss@keystone/v3", "http://***@keystone/v3"),
        ("http://nova@keystone:5000/v3", "http://***@keystone:5000/v3"),
        ("rabbit://a:secret@h1:5672,a:secret@h2:5672/", "rabbit://***@h2:5672/"),
        ("http://host/a,mysql://nova:secret@h", "http://host/a,mysql://***@h"),
        ("mysql://nova:hunter2 secret@h/db", "mysql://***@h/db"),
        ("mysql:/nova:hunter2@h/db", "mysql:/***@h/db"),
        ("amqp://broker:5672 is away for me@home", "amqp://broker:5672 is away for me@home"),
        ("amqp://broker:5672/ is away for me@home", "amqp://broker:5672/ is away for me@home"),
        ("http://h:1/a is away, mysql://n:a b@h", "http://h:1/a is away, mysql://***@h"),
        ("read 12:/a b@c", "read 12:/a b@c"),
    ],
)
def test_credentials_in_urls_of_messages_are_masked(text, seen):
    record = logs.OneLineRecord("name", logging.DEBUG, __file__, 1, "hint %s", (text,), None)
    assert record.getMessage() == f"hint {seen}"


def test_credentials_in_urls_of_tracebacks_are_masked():
    try:
        raise ValueError("bad address amqp://nova:secret@broker:5672/")
    except ValueError:
        record = logs.OneLineRecord("name", logging.ERROR, __file__, 1, "failed", (), sys.exc_info())
    text = logging.Formatter().format(record)
    assert text.endswith("ValueError: bad address amqp://***@broker:5672/")
    assert len(text.splitlines()) > 1


@pytest.mark.parametrize(
    ("level", "most"),
    [(logging.INFO, logs.LONGEST_LINE + 40), (logging.DEBUG, 100_005)],
    ids=["info", "debug"],
)
def test_lines_above_debug_level_are_cut(level, most):
    text = logs.OneLineRecord("n", level, __file__, 1, "hint %s", ("x" * 100_000,), None).getMessage()
    assert text.startswith("hint xxx")
    assert len(text) <= most
    assert (level == logging.DEBUG) or text.endswith(" more characters)")


@pytest.mark.parametrize(
    ("message", "summary", "appended"),
    [
        ("Cell east cannot be read: flooded", "OSError: flooded", ""),
        ("Cell east cannot be read", "OSError: flooded", "OSError: flooded"),
        ("Cell east cannot be read", "OSError", "OSError"),
        (f"Call refused: {'x' * 200}", f"ValueError: {'x' * 300}", ""),
        ("Call refused: a\\nb", "ValueError: a\nb", ""),
    ],
    ids=["said already", "not said", "no text", "said in part", "escaped"],
)
def test_the_cause_of_a_warning_is_said_once(message, summary, appended):
    record = logs.OneLineRecord("name", logging.WARNING, __file__, 1, message, (), None)
    record.error_summary = summary
    assert record.error_summary == appended
