"""The parts of a scheduler, put together."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
import math
from typing import Any

from oslo_config import cfg

from scheduler.claims.claims import Claims
from scheduler.filters.numa_topology_filter import fitter_of
from scheduler.nova_db.inventory import HostInventory
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.client import PlacementClient
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.plain_query import CLASSES
from scheduler.placement.providers import ABSENT, read_provider
from scheduler.placement.write_policy import Timing
from scheduler.request.network import NeutronNetwork
from scheduler.rules import nova_modules
from scheduler.rules.drivers import Rules, load_rules
from scheduler.selection.driver import FilterDriver
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.server_groups import ServerGroups
from scheduler.stream.decision_stream import DecisionStream, NoStream, make_stream
from scheduler.stream.shared_decisions import LocalState
from scheduler.workflow.candidate_hosts import CandidateHosts
from scheduler.workflow.world import Announcer, LiveWorld


@dataclass(frozen=True)
class Outside:
    """What a scheduler reads and writes; a model of it in a simulation.

    Attributes:
        hosts: What is known of the hosts, from nova's databases; its clock is that of all parts.
        placement: The client that the daemon starts.
        network: Neutron, for the pre-filters.
        timing: The clock and the sleep of writes to Placement.
    """

    hosts: HostInventory
    placement: PlacementClient
    network: NeutronNetwork
    timing: Timing = field(default_factory=Timing)

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "Outside":
        """Make the clients that the options describe; nothing is connected to yet.

        Raises:
            ConfigError: An option cannot work.
            PlacementAuthFailure: ``[placement]`` names no usable credentials.
        """
        placement = PlacementClient.from_conf(conf)
        return cls(HostInventory(conf), placement, NeutronNetwork.from_conf(conf))


@dataclass(frozen=True)
class Parts:
    """What a scheduler works with.

    Attributes:
        hosts: What is known of the hosts.
        placement: The client that the daemon starts.
        candidates: Answers which hosts could take a request.
        candidate_hosts: Finds the hosts of a request.
        claims: Claims hosts in Placement.
        mirror: What is known of Placement's compute nodes.
        stream: What other schedulers decide, if it is shared.
    """

    hosts: HostInventory
    placement: PlacementClient
    candidates: CandidateSource
    candidate_hosts: CandidateHosts
    claims: Claims
    mirror: CandidateMirror
    stream: DecisionStream | NoStream


def put_together(
    conf: cfg.ConfigOpts,
    outside: Outside,
    make_stream: Callable[[cfg.ConfigOpts, LocalState], DecisionStream | NoStream] = make_stream,
) -> Parts:
    """Put the parts of one scheduler together; nothing is connected to yet.

    Args:
        make_stream: Makes the stream of decisions.

    Raises:
        ConfigError: An option cannot work.
    """
    hosts, placement = outside.hosts, outside.placement
    # The mirror after the host table, which knows the partition: it would mirror the nodes of all partitions.
    mirror = CandidateMirror(
        placement,
        lambda: conf.berth.mirror_interval,
        hosts.clock,
        hosts.partition.aggregates,
        lambda uuids: hosts.snapshot(math.inf).totals(uuids, CLASSES),
    )
    # The stream lays what others decide over the table and the mirror, so both exist before it.
    stream = make_stream(conf, LocalState(hosts.pending, partial(hosts.snapshot, math.inf), mirror))
    # Each write is noted in the mirror. Otherwise the next decision would choose by amounts without it.
    writer = AllocationWriter(placement, timing=outside.timing, written=mirror.known.written)
    # Claims after the host table, too: what is released depends on nova's state of the instance.
    claims = Claims(
        writer,
        hosts.states.of,
        nodes_of_hosts=lambda names: hosts.nodes_of_hosts(hosts.snapshot(math.inf), names),
        come_to=hosts.states.on_their_way,
        listeners=(mirror, stream.sharing),
    )
    # A question to Placement begins the reading of hosts: one after the other would take as long as both.
    candidates = CandidateSource(placement, hosts.begin_reading, hosts.clock)

    def aggregates_of(context: Any, provider: str) -> frozenset[str]:
        return (read_provider(placement, provider, "aggregates", context=context) or ABSENT).aggregates

    return Parts(
        hosts=hosts,
        placement=placement,
        candidates=candidates,
        candidate_hosts=CandidateHosts(conf, hosts, candidates, outside.network, aggregates_of),
        claims=claims,
        mirror=mirror,
        stream=stream,
    )


def make_world(conf: cfg.ConfigOpts, parts: Parts, notifications: Announcer) -> Callable[..., LiveWorld]:
    """Return what makes the world of requests, given its ``driver``."""
    hosts = parts.hosts
    return partial(
        LiveWorld,
        conf=conf,
        placement=parts.placement,
        hosts=hosts,
        candidate_hosts=parts.candidate_hosts,
        mirror=parts.mirror,
        mirrored_hosts=MirroredHosts(parts.mirror, hosts.instances, hosts.pending, looks_up=True),
        groups=ServerGroups(),
        claims=parts.claims,
        notifications=notifications,
        clock=hosts.clock,
    )


def no_stream(_conf: cfg.ConfigOpts, _state: LocalState) -> NoStream:
    """Make no stream, for one whose decisions others must not count on."""
    return NoStream()


def make_driver(
    conf: cfg.ConfigOpts,
    is_mapped: Callable[[str], bool],
    rules: Rules | None = None,
) -> tuple[Rules, FilterDriver]:
    """Load the rules that the options name, and return them with what filters, weighs and chooses by them.

    Args:
        is_mapped: Whether conductors know the cell of a service host.
        rules: Rules that are loaded already.

    Raises:
        HostFilterNotFound: An enabled filter does not exist.
        ClassNotFound: A configured class does not exist.
    """
    nova_modules.provide(conf)
    rules = load_rules(conf) if rules is None else rules
    fitter = fitter_of(rules.chain.filters, conf)
    return rules, FilterDriver(conf, rules.chain, rules.weighers, fitter, is_mapped)
