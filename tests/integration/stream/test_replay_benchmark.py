"""What reads a long decision stream as a scheduler does that starts; how long it takes is not looked at."""

from contextlib import nullcontext

import pytest

from tools.bench import replay
from tools.rig import servers

pytestmark = pytest.mark.rabbitmq


@pytest.fixture
def measured(rabbit, rabbit_url, monkeypatch, capsys):
    """Run the command on a broker that is there already; returns what it prints."""

    def run(*arguments):
        monkeypatch.setattr(servers, "rabbitmq", lambda: nullcontext(rabbit))
        monkeypatch.setattr(rabbit, "vhost", lambda: rabbit_url)
        monkeypatch.setattr(servers, "stop_on_sigterm", lambda: None)
        assert replay.main(arguments) == 0
        return [line.split() for line in capsys.readouterr().out.splitlines()[1:]]

    return run


def test_all_records_are_read_at_each_start(measured):
    names, figures = measured("--records", "100", "--hosts", "20", "--runs", "2", "--a-message", "3")
    shown = dict(zip(" ".join(names).replace("a message", "a_message").split(), figures, strict=True))
    assert (shown["a_message"], shown["pending"]) == ("3", "50")
