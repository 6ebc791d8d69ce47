"""Decisions of the driver over builders, noted by a trace."""

import time
from types import SimpleNamespace

import numpy as np

from scheduler.decisions.explanation import FailureExplainer
from scheduler.decisions.record import Names
from scheduler.decisions.trace import Trace
from scheduler.errors import NoValidHost
from scheduler.filters.chain import FilterChain
from scheduler.hosts.pending import AMOUNTS, PendingPlacements
from scheduler.hosts.view import HostView
from scheduler.numa.fit import Fitter
from scheduler.placement.mirror import Mirror
from scheduler.rules import load_filters, load_weighers
from scheduler.selection.driver import FilterDriver
from tests.builders import CELL, OTHER_CELL, Instances, make_table
from tests.unit.selection.requests import FakeClaims


def pending_on(table, rows):
    """Placements of other requests, one on each of these rows."""
    placements = PendingPlacements()
    for row in rows:
        placements.add(f"pending {row}", table, row, np.array([-64, -1024, 1, 1, 1])[: len(AMOUNTS)])
    return placements


NAMES = Names({CELL: "cell1", OTHER_CELL: "cell2"}, "default zone")


class NoMirror:
    """A mirror that has read no node."""

    known = Mirror()

    def age(self):
        return 0.0


def record_of(decision):
    """A record whose document is a decision."""
    return SimpleNamespace(
        decision=decision,
        request_id=decision.request_id,
        instances=decision.instances,
        error=decision.error,
        unexplained=None,
        table=None,
        pack=lambda: len(decision.spec),
    )


def explainer_of(table, chain, instances, pending):
    """Explains failures of requests without a query."""
    mapped = lambda host: True  # noqa: E731
    return FailureExplainer(
        lambda: table, NoMirror(), None, lambda: chain, mapped, instances, pending, time.monotonic
    )


def decide(
    conf, hosts, request, claims=None, pending_rows=(), others=(), source="placement", make=Trace, **options
):
    """Choose hosts with the configured rules; return the trace, which has finished.

    Placement does not offer the ``others``.
    """
    table = make_table([*hosts, *others])
    pending = pending_on(table, pending_rows)
    view = HostView.of(
        table,
        np.arange(len(hosts)),
        [tuple(host.candidates) for host in hosts],
        Instances(hosts),
        pending,
    )
    chain = FilterChain(load_filters.load(conf))
    driver = FilterDriver(conf, chain, load_weighers.load(conf), Fitter(), lambda host: True)
    trace = make(request, names=lambda: NAMES, **options)
    trace.found(source, len(hosts))
    error = None
    try:
        trace.selected(driver.select(view, request, claims or FakeClaims(), observer=trace))
    except NoValidHost as caught:
        error = caught
    trace.finish(error, explainer_of(table, chain, Instances(hosts), pending).explain)
    return trace
