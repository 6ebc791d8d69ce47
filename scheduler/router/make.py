"""The router that the options describe."""

from oslo_config import cfg

from scheduler.conf.partitions import all_partitions, own_name
from scheduler.router.router import Places, Router
from scheduler.stream.decision_stream import DecisionStream, NoStream
from scheduler.stream.membership import LATELY


def make_router(conf: cfg.ConfigOpts, stream: DecisionStream | NoStream, places: Places) -> Router | None:
    """Make the router of a scheduler.

    Args:
        conf: The options.
        stream: Tells which schedulers are alive.
        places: Which partitions have a host or a cell.

    Returns:
        None for a scheduler that serves all hosts, and for one that hears of no others.
    """
    if not own_name(conf) or not isinstance(stream, DecisionStream):
        return None
    membership = stream.membership
    return Router(
        all_partitions(conf),
        membership.own,
        places,
        lambda: membership.alive() if stream.in_step else (),
        lambda: membership.heard_within(LATELY) if stream.in_step else (),
    )
