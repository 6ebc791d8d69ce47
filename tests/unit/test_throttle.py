import logging

from scheduler.logs import RateLimitedLogger

LOG = logging.getLogger("throttle")


def test_one_of_a_kind_in_an_interval(caplog):
    now = [0.0]
    occasionally = RateLimitedLogger(LOG, interval=10.0, clock=lambda: now[0])
    with caplog.at_level(logging.DEBUG):
        for second in (0, 1, 2, 11, 12):
            now[0] = float(second)
            occasionally.warning("away", "no answer %d", second)
        occasionally.warning("other", "something else")
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("WARNING", "no answer 0"),
        ("DEBUG", "no answer 1"),
        ("DEBUG", "no answer 2"),
        ("WARNING", "no answer 11 (and 2 more like this)"),
        ("DEBUG", "no answer 12"),
        ("WARNING", "something else"),
    ]
