"""What a manager works with, put together from the options."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
import math
from pathlib import Path
import time

from oslo_config import cfg

from scheduler.claims.claimer import Claimer
from scheduler.claims.observers import ClaimObserver
from scheduler.claims.spool_file import SpoolFile
from scheduler.nova_db.inventory import Inventory
from scheduler.placement.allocation_writer import AllocationWriter
from scheduler.placement.candidates import CandidateSource
from scheduler.placement.client import PlacementClient
from scheduler.placement.mirror_source import CandidateMirror
from scheduler.placement.providers import read_aggregates
from scheduler.request.network import NeutronNetwork
from scheduler.selection.mirrored_hosts import MirroredHosts
from scheduler.selection.server_groups import ServerGroups
from scheduler.stream.decision_stream import DecisionStream, NoStream, make_stream
from scheduler.stream.shared_decisions import LocalState
from scheduler.workflow.callers import Callers
from scheduler.workflow.candidate_hosts import CandidateHosts
from scheduler.workflow.claiming import Claiming
from scheduler.workflow.held_hosts import HeldHosts
from scheduler.workflow.steps import Notifications, Steps


@dataclass(frozen=True)
class ManagerParts:
    """What a manager works with.

    Attributes:
        hosts: What is known of the hosts.
        placement: The client that the daemon starts.
        candidates: Answers which hosts could take a request.
        claimer: Claims hosts in Placement.
        network: Neutron, for the pre-filters.
        mirror: What is known of Placement's compute nodes.
        stream: What other schedulers decide, if it is shared.
        clock: Seconds, as ``time.monotonic``.
    """

    hosts: Inventory
    placement: PlacementClient
    candidates: CandidateSource
    claimer: Claimer
    network: NeutronNetwork
    mirror: CandidateMirror
    stream: DecisionStream | NoStream = field(default_factory=NoStream)
    clock: Callable[[], float] = time.monotonic

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts, spool_directory: Path | None = None) -> "ManagerParts":
        """Make the parts that the options describe; nothing is connected to yet.

        Args:
            spool_directory: Where claims are kept that could not be released; None: in memory alone.

        Raises:
            ConfigError: An option cannot work.
            PlacementAuthFailure: ``[placement]`` names no usable credentials.
        """
        placement = PlacementClient.from_conf(conf)
        hosts = Inventory(conf)
        mirror = CandidateMirror(
            placement, lambda: conf.berth.mirror_interval, aggregates=hosts.partition.aggregates
        )
        stream = make_stream(conf, LocalState(hosts.pending, partial(hosts.snapshot, math.inf), mirror.known))
        writer = AllocationWriter(placement, written=mirror.known.written)
        return cls(
            hosts=hosts,
            placement=placement,
            candidates=CandidateSource.of(placement, hosts.begin_reading),
            claimer=Claimer(
                writer,
                hosts.states.of,
                SpoolFile(spool_directory),
                nodes_of_hosts=lambda names: hosts.nodes_of_hosts(hosts.snapshot(math.inf), names),
            ),
            network=NeutronNetwork.from_conf(conf),
            mirror=mirror,
            stream=stream,
        )


def make_steps(conf: cfg.ConfigOpts, parts: ManagerParts, notifications: Notifications) -> Steps:
    """Put together what takes the steps of requests."""
    hosts = parts.hosts
    candidate_hosts = CandidateHosts(
        conf, hosts, parts.candidates, parts.network, partial(read_aggregates, parts.placement)
    )
    observer = ClaimObserver(parts.mirror, parts.stream.sharing)
    return Steps(
        hosts=hosts,
        candidate_hosts=candidate_hosts,
        held_hosts=HeldHosts(hosts, parts.claimer, candidate_hosts),
        mirror=parts.mirror,
        mirrored_hosts=MirroredHosts(parts.mirror, hosts.instances, hosts.pending),
        groups=ServerGroups(),
        callers=Callers(parts.claimer, candidate_hosts),
        claims=Claiming(
            conf, parts.placement, parts.claimer, hosts.pending, candidate_hosts, observer, parts.clock
        ),
        notifications=notifications,
        clock=parts.clock,
    )
