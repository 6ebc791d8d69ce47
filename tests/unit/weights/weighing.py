"""Asking weighers in tests: totals by host name, for one weigher or several."""

from types import SimpleNamespace

from scheduler import conf as options
from scheduler.weights.scores import Scores
from tests.builders import make_view


def make_conf(**filter_scheduler):
    """Options as a new installation has them; names without a group are of [filter_scheduler]."""
    conf = options.new()
    conf([], project="test", default_config_files=[], default_config_dirs=[])
    for name, value in filter_scheduler.items():
        group, _, option = name.rpartition("__")
        conf.set_override(option, value, group or "filter_scheduler")
    return conf


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
