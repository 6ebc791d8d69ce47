"""Options that a SIGHUP changes, by kind."""

from functools import partial

from oslo_config import cfg

mutable_bool = partial(cfg.BoolOpt, mutable=True)
mutable_float = partial(cfg.FloatOpt, mutable=True)
mutable_int = partial(cfg.IntOpt, mutable=True)
mutable_list = partial(cfg.ListOpt, mutable=True)
mutable_multistr = partial(cfg.MultiStrOpt, mutable=True)
mutable_str = partial(cfg.StrOpt, mutable=True)
