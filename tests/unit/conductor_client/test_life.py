import signal
from unittest import mock

from oslo_concurrency import lockutils
from oslo_log import log

from conductor_client.cmd import life


def test_locks_are_where_the_options_say(tmp_path, monkeypatch):
    monkeypatch.setattr(log, "setup", mock.Mock())
    monkeypatch.setattr(signal, "sigwait", mock.Mock())
    monkeypatch.setattr(signal, "pthread_sigmask", mock.Mock())
    monkeypatch.setattr(lockutils, "set_defaults", mock.Mock())
    path = tmp_path / "nova.conf"
    path.write_text("[oslo_concurrency]\nlock_path = /var/lib/nova/tmp\n")
    assert life.run("berth-fake-compute", mock.Mock(), ["--config-file", str(path)]) == 0
    lockutils.set_defaults.assert_called_once_with("/var/lib/nova/tmp")
