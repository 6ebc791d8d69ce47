"""What a logging configuration written for nova says of nova's scheduler holds for the lines of Berth."""

import pathlib
import re
from types import SimpleNamespace

import pytest

import scheduler
from scheduler import conf as options
from scheduler.conf.derived import lost_log
from scheduler.conf.log_output import log_output
from tests.support import forked
from tests.unit.cmd.test_scheduler import DATABASE

FORMATTER = """
[formatters]
keys = context
[formatter_context]
class = oslo_log.formatters.ContextFormatter
"""

#: The default of the nova chart of OpenStack-Helm, which StarlingX uses as it is.
OPENSTACK_HELM = f"""
[loggers]
keys = root, nova, os.brick
[handlers]
keys = stdout, stderr, "null"
[handler_"null"]
class = logging.NullHandler
formatter = context
args = ()
[handler_stdout]
class = StreamHandler
args = (sys.stdout,)
formatter = context
[handler_stderr]
class = StreamHandler
args = (sys.stderr,)
formatter = context
[logger_root]
level = WARNING
handlers = "null"
[logger_nova]
level = INFO
handlers = stdout
qualname = nova
[logger_os.brick]
level = INFO
handlers = stdout
qualname = os.brick
{FORMATTER}
"""

#: As SAP publishes it: one logger for each part of nova, and little from elsewhere.
SAP = f"""
[loggers]
keys = root, nova_scheduler, nova_filters, sqlalchemy
[handlers]
keys = stdout
[handler_stdout]
class = StreamHandler
args = (sys.stdout,)
formatter = context
[logger_root]
level = WARNING
handlers = stdout
[logger_nova_scheduler]
level = DEBUG
handlers =
qualname = nova.scheduler
[logger_nova_filters]
level = DEBUG
handlers =
qualname = nova.filters
[logger_sqlalchemy]
level = ERROR
handlers =
qualname = sqlalchemy
{FORMATTER}
"""

NOWHERE = f"""
[loggers]
keys = root, cinder
[handlers]
keys = stdout, nothing
[handler_nothing]
class = logging.NullHandler
args = ()
[handler_stdout]
class = StreamHandler
args = (sys.stdout,)
[logger_root]
level = INFO
handlers = nothing
[logger_cinder]
level = INFO
handlers = stdout
qualname = cinder
{FORMATTER}
"""

QUIET = OPENSTACK_HELM.replace("[logger_nova]\nlevel = INFO", "[logger_nova]\nlevel = ERROR")

#: Says a line at each level by loggers of Berth and of a library.
PROGRAM = """
import logging, sys
from scheduler.cmd import scheduler as command
from scheduler.filters import chain, compute_filter
from scheduler.daemon import service
from scheduler import manager
command.prepare(command.read_options(sys.argv[1:]))
for log in (manager.LOG, service.LOG, chain.LOG, compute_filter.LOG, logging.getLogger("sqlalchemy.engine")):
    for level in ("debug", "info", "error"):
        getattr(log, level)("said at %s", level)
"""

ALL = {"scheduler.manager", "scheduler.daemon.service", "filters", "scheduler.filters.compute_filter"}


@pytest.fixture
def configure(tmp_path):
    """A function from options, and the text for log_config_append, to the arguments of a program."""

    def configure(more="", text=""):
        path = tmp_path / "nova.conf"
        if text:
            (tmp_path / "logging.conf").write_text(text)
            more += f"\nlog_config_append = {tmp_path}/logging.conf"
        path.write_text(f"{DATABASE}[DEFAULT]\n{more}\n")
        return ["--config-file", str(path)]

    return configure


def lines(arguments):
    """The names of loggers of nova, without ``nova``, of which lines were written, by level."""
    done = forked.run("-c", PROGRAM, *arguments)
    assert done.returncode == 0, done.stderr
    found = re.findall(r" (\S+) \[-\] said at (\w+)", done.stdout + done.stderr)
    assert ("sqlalchemy.engine", "info") not in found
    return {
        level: {name.removeprefix("nova.") for name, of in found if of == level and name.startswith("nova.")}
        for level in ("debug", "info", "error")
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "text", "shown"),
    [
        ("", OPENSTACK_HELM, {"debug": set(), "info": ALL, "error": ALL}),
        ("", SAP, {"debug": ALL, "info": ALL, "error": ALL}),
        ("", QUIET, {"debug": set(), "info": set(), "error": ALL}),
        ("", NOWHERE, {"debug": set(), "info": set(), "error": set()}),
        ("", "", {"debug": set(), "info": ALL, "error": ALL}),
        ("debug = true", "", {"debug": ALL, "info": ALL, "error": ALL}),
        (
            "default_log_levels = sqlalchemy=WARN,nova.scheduler=DEBUG",
            "",
            {"debug": ALL - {"filters"}, "info": ALL, "error": ALL},
        ),
        (
            "default_log_levels = sqlalchemy=WARN,nova.scheduler.filters=DEBUG,nova.filters=ERROR",
            "",
            {"debug": {"scheduler.filters.compute_filter"}, "info": ALL - {"filters"}, "error": ALL},
        ),
    ],
    ids=[
        *("OpenStack-Helm", "SAP", "errors only", "nowhere", "defaults", "debug", "levels of a charm"),
        "levels of filters",
    ],
)
def test_lines_are_written_as_those_of_nova_are(configure, more, text, shown):
    assert lines(configure(more, text)) == shown


@pytest.mark.parametrize(
    ("more", "text", "said"),
    [
        ("", OPENSTACK_HELM, "Lines of INFO and above go to handler stdout: StreamHandler (sys.stdout,)"),
        ("", SAP, "Lines of DEBUG and above go to handler stdout: StreamHandler (sys.stdout,)"),
        ("", QUIET, "Lines of ERROR and above go to handler stdout: StreamHandler (sys.stdout,)"),
        ("", "", "Lines of INFO and above go to standard output"),
        ("debug = true\nuse_stderr = true", "", "Lines of DEBUG and above go to standard error"),
        ("use_journal = true", "", "Lines of INFO and above go to the journal"),
        ("use_syslog = true", "", "Lines of INFO and above go to standard output, syslog"),
        ("log_dir = /var/log/nova", "", "Lines of INFO and above go to /var/log/nova/berth-scheduler.log"),
        ("log_dir = /var/log\nlog_file = a", "", "Lines of INFO and above go to /var/log/a"),
        ("default_log_levels = nova=ERROR", "", "Lines of ERROR and above go to standard output"),
    ],
)
def test_where_lines_go_is_known_without_a_try(configure, more, text, said):
    conf = options.load(configure(more, text))
    assert str(log_output(conf)) == said
    assert list(lost_log(conf)) == []


def test_that_all_lines_are_lost_is_a_warning(configure):
    conf = options.load(configure(text=NOWHERE))
    (line,) = lost_log(conf)
    assert line in options.remarks(conf)
    assert line == (
        f"[DEFAULT]/log_config_append = {conf.log_config_append} gives no handler that writes to the logger "
        "nova.scheduler, nova or root: all lines of the log are lost"
    )


@pytest.mark.parametrize("text", ["no section", "[loggers]\nkeys = nova\n", None])
def test_a_file_that_cannot_be_read_has_no_answer(tmp_path, text):
    path = tmp_path / "logging.conf"
    if text is not None:
        path.write_text(text)
    assert log_output(SimpleNamespace(log_config_append=str(path))) is None


def test_each_module_logs_below_nova():
    package = pathlib.Path(scheduler.__path__[0])
    found = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        for line in path.read_text().splitlines()
        if "getLogger(__name__)" in line
    ]
    assert found == []
