"""The stand-ins as processes, on the in-memory bus."""

import signal
import subprocess
import sys
from unittest import mock

from oslo_concurrency import lockutils
from oslo_log import log
import pytest

from conductor_client.cmd import stand_ins

CONFIGURATION = """\
[DEFAULT]
transport_url = fake://
[api_database]
connection = sqlite://
[database]
connection = sqlite://
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:9
[conductor_client]
api_transport_url = fake://
"""


def command(*arguments):
    return [sys.executable, "-W", "ignore", "-m", "conductor_client.cmd.stand_ins", *arguments]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "name"), [("", "The super-conductor"), ("cell = cell1\nfail_rate = 0.5\n", "cell1")]
)
def test_serves_until_asked_to_stop(tmp_path, options, name):
    path = tmp_path / "nova.conf"
    path.write_text(CONFIGURATION + options)
    process = subprocess.Popen(command("--config-file", path), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == f"{name} is ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.slow
def test_says_what_is_wrong_with_its_options(tmp_path):
    path = tmp_path / "nova.conf"
    path.write_text("[scheduler]\nmax_attempts = many\n")
    done = subprocess.run(
        command("--config-file", path), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "max_attempts" in done.stderr
    assert "Traceback" not in done.stderr


def test_locks_are_where_the_options_say(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "setup", mock.Mock())
    monkeypatch.setattr(signal, "sigwait", mock.Mock())
    monkeypatch.setattr(signal, "pthread_sigmask", mock.Mock())
    monkeypatch.setattr(lockutils, "set_defaults", mock.Mock())
    monkeypatch.setattr(stand_ins, "_super_conductor", mock.Mock())
    path = tmp_path / "nova.conf"
    path.write_text("[oslo_concurrency]\nlock_path = /var/lib/nova/tmp\n")
    assert stand_ins.main(["--config-file", str(path)]) == 0
    lockutils.set_defaults.assert_called_once_with("/var/lib/nova/tmp")
