import pytest

from scheduler import errors
from scheduler.cmd import scheduler as command
from scheduler.daemon import service
from tests.support import forked

DATABASE = "[api_database]\nconnection=sqlite://\n"


@pytest.fixture
def arguments(tmp_path):
    def arguments(text):
        path = tmp_path / "nova.conf"
        path.write_text(text)
        return ["--config-file", str(path)]

    return arguments


@pytest.fixture
def daemons(monkeypatch):
    """The daemons that were started, as their arguments; logging is left as the tests have it."""
    started = []

    class Service:
        def __init__(self, *given):
            started.append(given)

        def run(self):
            return 7

    monkeypatch.setattr(service, "Service", Service)
    monkeypatch.setattr("scheduler.conf.log_output.set_up_logging", lambda conf: None)
    return started


def test_the_daemon_gets_options_command_line_and_parts(arguments, daemons):
    argv = arguments(f"{DATABASE}[DEFAULT]\nhost=me\n")
    assert command.main(argv) == 7
    ((conf, given, parts),) = daemons
    assert conf.host == "me"
    assert given == argv
    assert callable(parts.manager)


def test_without_a_command_line_the_program_s_own_is_taken(arguments, daemons, monkeypatch):
    monkeypatch.setattr("sys.argv", ["berth-scheduler", *arguments(DATABASE)])
    assert command.main() == 7


def test_values_that_are_not_taken_as_they_stand_are_logged(arguments, daemons, caplog):
    command.main(arguments(f"{DATABASE}[DEFAULT]\nservice_down_time=1\n"))
    assert "service_down_time 1 is not above [DEFAULT]/report_interval 10, so" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[scheduler]\nmax_attempts=0\n", "[scheduler]/max_attempts: "),
        ("not a configuration\n", "cannot be read"),
        ("[DEFAULT]\n", "[api_database]/connection is not set"),
        (f"{DATABASE}[oslo_reports]\nfile_event_handler=/no/such/file\n", "file_event_handler"),
    ],
)
def test_what_cannot_work_is_one_line_and_status_1(arguments, daemons, capsys, text, message):
    assert command.main(arguments(text)) == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("berth-scheduler: ")
    assert message in lines[0]
    assert daemons == []


def test_a_logging_configuration_that_cannot_be_read_is_refused(arguments, tmp_path):
    with pytest.raises(errors.ConfigError, match="Logging cannot be set up"):
        command.prepare(
            command.read_options(arguments(f"{DATABASE}[DEFAULT]\nlog_config_append={tmp_path}/absent\n"))
        )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("use_journal=true", "pip install 'berth-scheduler[journal]'"),
        ("log_file={directory}/absent/log", "Logging cannot be set up: "),
    ],
    ids=["journal without its package", "log directory is missing"],
)
def test_a_log_that_cannot_be_written_is_refused(arguments, tmp_path, monkeypatch, text, said):
    monkeypatch.setattr("oslo_log.handlers.journal", None)
    with pytest.raises(errors.ConfigError) as raised:
        command.prepare(
            command.read_options(arguments(f"{DATABASE}[DEFAULT]\n{text.format(directory=tmp_path)}\n"))
        )
    assert said in str(raised.value)


PROGRAM = """
import logging, sys
from scheduler.cmd import scheduler as command
command.prepare(command.read_options(sys.argv[1:]))
logging.getLogger("scheduler").warning("name %s", "a\\nCRITICAL forged \\x1b[0m\\u2028x")
try:
    raise ValueError("first\\nsecond")
except ValueError:
    logging.getLogger("scheduler").exception("failed")
"""


@pytest.mark.slow
def test_a_line_break_in_a_message_does_not_begin_a_line_of_the_log(arguments, tmp_path):
    file = tmp_path / "log"
    argv = arguments(f"{DATABASE}[DEFAULT]\nlog_file={file}\n")
    done = forked.run("-c", PROGRAM, *argv)
    assert (done.returncode, done.stderr) == (0, "")
    first, second, *traceback = file.read_text().splitlines()
    assert first.endswith(r"name a\nCRITICAL forged \x1b[0m\u2028x")
    assert second.endswith(r"failed: ValueError: first\nsecond")
    assert len(traceback) > 3
    assert all(" ERROR " in line for line in traceback)


@pytest.mark.parametrize(("argument", "status"), [("--version", 0), ("--help", 0), ("--no-such", 2)])
def test_arguments_that_end_the_program(argument, status, capsys):
    with pytest.raises(SystemExit) as end:
        command.main([argument])
    assert end.value.code == status
    assert capsys.readouterr()
