"""A user of the broker who may use nova's queues only."""

import io
import json
from urllib.parse import urlsplit
import uuid

import pytest

from scheduler.errors import ConfigError
from scheduler.operators import programs
from scheduler.rpc import explain, transport
from scheduler.rpc.bus import Bus
from tests.support.options import make_conf

NOVA = "^(nova|scheduler|reply_)"
GRANT = """\
rabbit_auth_backend_internal:add_user(<<"{user}">>, <<"secret">>, <<"tests">>),
rabbit_auth_backend_internal:set_permissions(<<"{user}">>, <<"{vhost}">>, {patterns}, <<"tests">>).
"""
CONF = """\
[DEFAULT]
transport_url = {url}
state_path = /tmp
[api_database]
connection = sqlite://
[placement]
auth_type = admin_token
endpoint = http://127.0.0.1:1
token = admin
"""


@pytest.fixture
def url_of_user(rabbit, rabbit_url):
    """A function from a pattern to the transport URL of a user who may configure, write and read it."""

    def url(pattern):
        user, parts = f"user-{uuid.uuid4().hex}", urlsplit(rabbit_url)
        patterns = ", ".join([f'<<"{pattern}|^amq.default$">>'] * 3)
        rabbit.evaluate(GRANT.format(user=user, vhost=parts.path[1:], patterns=patterns))
        return f"rabbit://{user}:secret@127.0.0.1:{parts.port}{parts.path}"

    return url


@pytest.mark.parametrize(
    ("pattern", "result", "detail", "step"),
    [
        (NOVA, "Warning", "access to queue 'berth.decisions'", "configure, write and read ^berth"),
        (f"{NOVA}|^berth.decisions", "Warning", "access to queue 'berth-explain'", "read ^berth"),
        (f"{NOVA}|^berth", "Success", "The broker accepts them", ""),
    ],
    ids=["nova", "stream", "all"],
)
def test_the_check_declares_what_the_daemon_declares(
    rabbit, url_of_user, tmp_path, pattern, result, detail, step
):
    url = url_of_user(pattern)
    (tmp_path / "nova.conf").write_text(CONF.format(url=url))
    argv = ["--config-file", str(tmp_path / "nova.conf"), "upgrade", "check", "--format", "json"]
    output = io.StringIO()
    programs.status(argv, stdout=output, stderr=io.StringIO())
    (row,) = [row for row in json.loads(output.getvalue()) if row["Check"].startswith("Queues of Berth")]
    assert row["Result"] == result
    assert detail in row["Detail"]
    assert step in row["Next step"]
    assert rabbit.queues(urlsplit(url).path[1:]) == []


def test_refused_queues_for_questions_are_one_line(url_of_user):
    conf = make_conf(_transport_url=url_of_user(NOVA))
    bus = transport.rpc_transport(conf)
    server = explain.build(conf, Bus(bus, 1000), {})
    with pytest.raises(ConfigError, match=r"berth-explain.*configure, write and read \^berth"):
        server.start()
    bus.cleanup()
