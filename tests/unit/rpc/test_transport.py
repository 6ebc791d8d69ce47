import traceback

from amqp import exceptions as amqp
import oslo_messaging as messaging
import pytest

from scheduler.errors import ConfigError
from scheduler.rpc import transport
from scheduler.rpc.transport import refusals_as_config_errors


@pytest.mark.parametrize(
    "make", [transport.rpc_transport, transport.notification_transport, transport.command_transport]
)
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
        (transport.command_transport, None, r"\[DEFAULT\]/transport_url"),
        (
            transport.notification_transport,
            "oslo_messaging_notifications",
            r"\[oslo_messaging_notifications\]/transport_url",
        ),
    ],
)
def test_a_url_that_leads_nowhere_is_refused_and_not_shown(conf, url, make, group, name):
    conf.set_override("transport_url", url, group)
    with pytest.raises(ConfigError, match=f"^{name} cannot be ") as caught:
        make(conf)
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def undeclared():
    """What oslo.messaging raises for a queue of another type, after it has tried another exchange as well."""
    try:
        try:
            raise amqp.PreconditionFailed("inequivalent arg 'x-queue-type' for queue 'scheduler'")
        except amqp.PreconditionFailed:
            raise amqp.PreconditionFailed("inequivalent arg 'durable' for exchange 'nova'")  # noqa: B904
    except amqp.PreconditionFailed as error:
        failure = messaging.MessageDeliveryFailure("after inf tries")
        failure.__cause__ = error
        return failure


@pytest.mark.parametrize(
    ("error", "said", "advised"),
    [
        (
            amqp.AccessRefused("ACCESS_REFUSED - Login was refused"),
            "Login was refused",
            "check user, password",
        ),
        (amqp.NotAllowed("NOT_ALLOWED - vhost x not found"), "vhost x not found", "check the virtual host"),
        (undeclared(), "for queue 'scheduler'", "rabbit_quorum_queue"),
    ],
    ids=["password", "virtual host", "queue type"],
)
def test_a_refusal_of_the_broker_is_one_line_that_says_what_to_do(error, said, advised):
    with pytest.raises(ConfigError) as raised, refusals_as_config_errors():
        raise error
    assert said in str(raised.value)
    assert advised in str(raised.value)
    assert raised.value.__cause__ is None


def test_a_broker_that_is_away_stays_what_it_is():
    with pytest.raises(messaging.MessageDeliveryFailure), refusals_as_config_errors():
        raise messaging.MessageDeliveryFailure("away")
