import json
import sys

import netaddr
from oslo_messaging._drivers import common
import pytest

from scheduler import errors, objects
from scheduler.rpc.errors import for_caller
from tests.support.wire_examples import message


def on_the_wire(error):
    """What oslo.messaging makes of an error."""
    try:
        raise for_caller(error)
    except Exception:  # noqa: BLE001 - any of them
        return json.loads(common.serialize_remote_exception(sys.exc_info()))


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no")


class WithObjects(Exception):
    kwargs = {"request": object()}


def test_no_valid_host_is_as_nova_sends_it():
    sent = on_the_wire(errors.NoValidHost("There are not enough hosts available."))
    example = json.loads(message("reply_no_valid_host")["failure"])
    del sent["tb"], example["tb"]
    assert sent == example


@pytest.mark.parametrize("reason", ["", "No such host - host: h node: None "])
def test_reason_is_kept_to_the_blank(reason):
    sent = on_the_wire(errors.NoValidHost(reason))
    assert sent["message"] == "No valid host was found. " + reason
    assert sent["kwargs"]["reason"] == reason


def fault_of_request(error):
    """An error of a library that a user's hint has caused."""
    try:
        with errors.faults_of_request():
            raise error
    except type(error) as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "module", "name", "text"),
    [
        (
            errors.RequestFilterFailed("why"),
            "nova.exception",
            "NoValidHost",
            "No valid host was found. Scheduling failed: why",
        ),
        (errors.AllocationUpdateFailed("c", "e"), "nova.exception", "AllocationUpdateFailed", None),
        (errors.RequestGroupSuffixConflict("_1"), "nova.exception", "RequestGroupSuffixConflict", None),
        (errors.ImageCPUPinningForbidden("x"), "nova.exception", "ImageCPUPinningForbidden", "x"),
        (objects.MissingField("RequestSpec", "flavor"), "nova.exception", "ObjectActionError", None),
        (
            objects.IncompatibleObjectVersion("Flavor", "2.0", "1.2"),
            "nova.exception",
            "Invalid",
            None,
        ),
        (errors.InvalidRequest("x"), "nova.exception", "Invalid", "x"),
        (fault_of_request(netaddr.AddrFormatError("x/99")), "nova.exception", "Invalid", "x/99"),
        (fault_of_request(TypeError("x")), "nova.exception", "Invalid", "x"),
        (ValueError("x"), "builtins", "ValueError", "x"),
        (KeyError("x"), "builtins", "KeyError", None),
        (ValueError(object()), "scheduler.rpc.errors", "InternalError", None),
        (SystemExit(3), "scheduler.rpc.errors", "InternalError", "SystemExit: 3"),
        (KeyboardInterrupt(), "scheduler.rpc.errors", "InternalError", "KeyboardInterrupt: "),
        (Unprintable(), "scheduler.rpc.errors", "InternalError", "Unprintable: "),
        (WithObjects("x"), "scheduler.rpc.errors", "InternalError", "WithObjects: x"),
    ],
)
def test_how_errors_arrive(error, module, name, text):
    sent = on_the_wire(error)
    assert (sent["module"], sent["class"]) == (module, name)
    assert text is None or sent["message"] == text
    assert sent["args"] == [sent["message"]] or module not in ("nova.exception", "scheduler.rpc.errors")


def test_hosts_that_are_unknown_are_not_no_valid_host():
    sent = on_the_wire(errors.HostsUnknown(["cell1 (uuid)"]))
    assert (sent["module"], sent["class"], sent["kwargs"]) == ("nova.exception", "CellTimeout", {"code": 503})
    assert "cell1 (uuid)" in sent["message"]


def test_an_outage_of_placement_is_an_error_that_conductors_know_and_has_no_address():
    sent = on_the_wire(errors.PlacementUnavailable("no connection to 10.0.0.1"))
    assert (sent["module"], sent["class"]) == ("nova.exception", "PlacementAPIConnectFailure")
    assert sent["kwargs"] == {"code": 503}
    assert "Placement is unavailable" in sent["message"]
    assert "10.0.0.1" not in sent["message"]


@pytest.mark.parametrize(
    "text", ["one\nERROR forged", "\x1b[31m", "x" * 5000], ids=["lines", "controls", "long"]
)
def test_a_text_that_is_no_short_line_is_sent_escaped_and_cut(text):
    sent = on_the_wire(ValueError(text))
    assert sent["class"] == "InternalError"
    assert sent["message"].startswith("ValueError: ")
    assert sent["message"].isprintable()
    assert len(sent["message"]) < 1000


def test_a_refusal_that_quotes_a_long_text_is_sent_escaped_and_cut():
    sent = on_the_wire(errors.InvalidSetting("hw:x\n" + "x" * 5000))
    assert sent["class"] == "Invalid"
    assert sent["message"].isprintable()
    assert len(sent["message"]) < 1000


@pytest.mark.parametrize(
    "kind", [errors.InvalidSetting, errors.InvalidRequest, ValueError], ids=lambda kind: kind.__name__
)
def test_credentials_in_a_text_are_not_sent(kind):
    sent = on_the_wire(kind("'amqp://nova:secret@broker/' is not a value"))
    assert "amqp://***@broker/" in sent["message"]
    assert "secret" not in sent["message"]
