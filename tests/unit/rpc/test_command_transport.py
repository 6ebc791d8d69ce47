import pytest

from scheduler import errors
from scheduler.rpc.command_transport import command_transport


def test_other_drivers_are_left_as_they_are(conf):
    conf.set_override("transport_url", "fake://")
    made = command_transport(conf)
    assert type(made._driver).__name__ == "FakeDriver"
    made.cleanup()


def test_a_url_that_cannot_be_read_is_refused(conf):
    conf.set_override("transport_url", "rabbit//nova:verysecret@h")
    with pytest.raises(errors.ConfigError):
        command_transport(conf)
