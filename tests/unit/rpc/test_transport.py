import pytest

from scheduler.rpc import transport


@pytest.mark.parametrize("make", [transport.rpc_transport, transport.notification_transport])
def test_exchange_and_error_modules(conf, make):
    conf.clear_override("control_exchange")
    made = make(conf)
    assert made._driver._default_exchange == "nova"
    assert made._driver._allowed_remote_exmods == ["nova.exception"]
    made.cleanup()


def test_operator_s_exchange_wins(conf):
    conf.set_override("control_exchange", "theirs")
    assert transport.rpc_transport(conf)._driver._default_exchange == "theirs"


def test_another_url(conf):
    assert transport.rpc_transport(conf, "fake://other").conf is conf
