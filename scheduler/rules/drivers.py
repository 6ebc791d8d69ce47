"""Which rules choose hosts: what ``[scheduler] driver`` stands for. All else is the same for all drivers."""

from collections.abc import Sequence
from typing import NamedTuple

from oslo_config import cfg

from scheduler.conf.derived import CHANCE, driver
from scheduler.filters.chain import FilterChain
from scheduler.filters.compute_filter import ComputeFilter
from scheduler.rules import load_filters, load_weighers
from scheduler.weights.amounts import RandomWeigher
from scheduler.weights.base import HostWeigher


class Rules(NamedTuple):
    """The rules in use."""

    chain: FilterChain
    weighers: Sequence[HostWeigher]


def load_rules(conf: cfg.ConfigOpts) -> Rules:
    """Load the rules of the driver.

    ``chance_scheduler`` chooses at random among the hosts whose compute service is up. Hosts that the request
    ignores, and those that Placement does not offer, are left out for every driver.

    Raises:
        HostFilterNotFound: An enabled filter does not exist.
        ClassNotFound: A configured class does not exist.
    """
    if driver(conf) == CHANCE:
        return Rules(FilterChain([ComputeFilter(conf)]), [RandomWeigher(conf)])
    return Rules(FilterChain(load_filters.load(conf)), load_weighers.load(conf))
