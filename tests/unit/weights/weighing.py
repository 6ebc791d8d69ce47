"""Asking weighers in tests: totals by host name, for one weigher or several."""

from types import SimpleNamespace

from scheduler.weights.scores import Scores
from tests.builders import make_view
from tests.support.options import make_conf


def make_request(**fields):
    """A request that nothing in it concerns any weigher, but for what is given."""
    neutral = {"requested_destination": None, "instance_group": None, "image": None}
    return SimpleNamespace(**{**neutral, **fields})


def totals(weighers, hosts, request=None, **overrides):
    """Host name -> total; ``overrides`` are options."""
    conf = make_conf(**overrides)
    view = make_view(hosts)
    scores = Scores([weigher(conf) for weigher in weighers], view, request or make_request())
    return {row.host: total for row, total in zip(view.rows, scores.totals().tolist(), strict=True)}
