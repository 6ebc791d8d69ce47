from amqp import exceptions as amqp
import oslo_messaging as messaging
import pytest

from scheduler.errors import ConfigError
from scheduler.rpc.broker_errors import refusals_as_config_errors


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
