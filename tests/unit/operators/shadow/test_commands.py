"""The command that decides copies: where it logs, and how it ends."""

import re

import pytest

from tests.support import forked


@pytest.fixture
def run(tmp_path):
    """Run the command with options of [DEFAULT]; returns the process and the lines in its log directory."""
    logs, config = tmp_path / "log", tmp_path / "nova.conf"
    logs.mkdir()

    def run(*options, database="sqlite:///none/api"):
        lines = [f"log_dir = {logs}", f"state_path = {tmp_path}", *options]
        config.write_text(
            "[DEFAULT]\n" + "\n".join(lines) + f"\n[api_database]\nconnection = {database}\n"
            f"[database]\nconnection = {database}\n[berth]\ndatabase_start_timeout = 1\n"
            "[placement]\nauth_type = none\nendpoint_override = http://127.0.0.1:1\n"
        )
        done = forked.run(
            "-m", "scheduler.operators.programs", "berth-shadow", "--config-file", config, "run"
        )
        return done, [line for file in logs.iterdir() for line in file.read_text().splitlines()]

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("fake://", r"\[DEFAULT\]/transport_url: a shadow needs RabbitMQ"),
        ("rabbit://u:p@127.0.0.1:1/", "the API database was not read within 1 s"),
    ],
)
def test_it_logs_as_the_daemon_does(run, url, problem):
    done, lines = run(f"transport_url = {url}")
    assert done.returncode == 1
    pattern = rf"\d{{4}}-\d\d-\d\d [\d:.]+ \d+ ERROR nova\.scheduler\.operators\.shadow\.commands .*The shadow cannot start: {problem}"
    assert [line for line in lines if re.match(pattern, line)], lines
    assert not [line for line in lines if not re.match(r"\d{4}-\d\d-\d\d ", line)]
    assert done.stderr == ""
