import traceback

import pytest

from scheduler import errors
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


@pytest.mark.parametrize(
    "url",
    [
        "nova:verysecret@h:5672//",
        "rabbit//nova:verysecret@h",
        "rabit://nova:verysecret@h/",
        "rabbit://nova:1very/secret@h/",
        "rabbit://nova:verysecret@h:port/",
        "rabbit://nova:verysecret@[::1/",
        "rabbit://nova:1/secret@h:5672/",
    ],
)
@pytest.mark.parametrize(
    ("make", "group", "name"),
    [
        (transport.rpc_transport, None, r"\[DEFAULT\]/transport_url"),
        (
            transport.notification_transport,
            "oslo_messaging_notifications",
            r"\[oslo_messaging_notifications\]/transport_url",
        ),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_and_not_shown(conf, url, make, group, name):
    conf.set_override("transport_url", url, group)
    with pytest.raises(errors.ConfigError, match=f"^{name} cannot be ") as caught:
        make(conf)
    assert "secret" not in "".join(traceback.format_exception(caught.value))
