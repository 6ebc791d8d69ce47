"""Options of the stand-ins, in a group of their own beside nova's."""

from collections.abc import Sequence

from oslo_config import cfg

import scheduler.conf

GROUP = "conductor_client"

OPTS = [
    cfg.StrOpt(
        "cell",
        help="Name of the cell, for the records. Cell conductor and fake compute.",
    ),
    cfg.StrOpt(
        "api_transport_url",
        secret=True,
        help="Message bus of the super-conductor and the scheduler, to which a cell sends its reports. Cell "
        "conductor and fake compute; [DEFAULT]/transport_url is the bus of their cell.",
    ),
    cfg.BoolOpt(
        "fail_always",
        default=False,
        help="Fail every build. Fake compute.",
    ),
    cfg.ListOpt(
        "fail_hosts",
        default=[],
        help="Service hosts on which every build fails. Fake compute.",
    ),
    cfg.FloatOpt(
        "fail_rate",
        default=0.0,
        min=0.0,
        max=1.0,
        help="Share of builds that fail. Fake compute.",
    ),
    cfg.IntOpt(
        "fail_seed",
        default=0,
        help="Seed that selects these builds: same seed, instance and host, same result. Fake compute.",
    ),
    cfg.FloatOpt(
        "build_seconds",
        default=0.0,
        min=0.0,
        help="Duration of a build. Fake compute.",
    ),
    cfg.BoolOpt(
        "report_instances",
        default=True,
        help="Inform the schedulers about each new instance, as nova-compute does with "
        "track_instance_changes. Fake compute.",
    ),
]


def load(argv: Sequence[str], prog: str) -> cfg.ConfigOpts:
    """Load the options of a command line and its files: nova's, the scheduler's own and these.

    Raises:
        ConfigError: As ``scheduler.conf.load``.
        SystemExit: As ``scheduler.conf.load``.
    """
    conf = scheduler.conf.load(argv, prog=prog)
    conf.register_opts(OPTS, group=GROUP)
    return conf
