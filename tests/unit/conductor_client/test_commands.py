"""The stand-ins as processes, on the in-memory bus."""

import signal
from unittest import mock

from oslo_concurrency import lockutils
from oslo_log import log
import pytest

from conductor_client.cmd import stand_ins
from tests.support import forked
from tests.support.waiting import eventually

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


COMMAND = ("-m", "conductor_client.cmd.stand_ins", "--config-file")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "name"), [("", "The super-conductor"), ("cell = cell1\nfail_rate = 0.5\n", "cell1")]
)
def test_serves_until_asked_to_stop(tmp_path, options, name):
    path = tmp_path / "nova.conf"
    path.write_text(CONFIGURATION + options)
    with forked.Running(*COMMAND, path) as process:
        assert eventually(lambda: process.printed == f"{name} is ready\n", 60)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


@pytest.mark.slow
def test_says_what_is_wrong_with_its_options(tmp_path):
    path = tmp_path / "nova.conf"
    path.write_text("[scheduler]\nmax_attempts = many\n")
    done = forked.run(*COMMAND, path)
    assert done.returncode == 1
    assert "max_attempts" in done.stderr
    assert "Traceback" not in done.stderr


def test_locks_are_where_the_options_say(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "setup", mock.Mock())
    monkeypatch.setattr(signal, "sigwait", mock.Mock())
    monkeypatch.setattr(signal, "pthread_sigmask", mock.Mock())
    monkeypatch.setattr(lockutils, "set_defaults", mock.Mock())
    monkeypatch.setattr(stand_ins, "_servers", lambda _conf: [])
    path = tmp_path / "nova.conf"
    path.write_text("[oslo_concurrency]\nlock_path = /var/lib/nova/tmp\n")
    assert stand_ins.main(["--config-file", str(path)]) == 0
    lockutils.set_defaults.assert_called_once_with("/var/lib/nova/tmp")
