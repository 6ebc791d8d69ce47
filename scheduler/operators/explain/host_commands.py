"""berth-explain host: why a host was not chosen for a request, or is never chosen."""

import argparse
from collections.abc import Iterator
import itertools
import logging

import msgspec

from scheduler.decisions import rendering
from scheduler.decisions.document import REJECTED
from scheduler.decisions.host_history import HostHistory, Unexplained, history_of, merged
from scheduler.decisions.host_status import HostStatus
from scheduler.decisions.hosts_now import HostNow, NodeNow
from scheduler.operators.app import add_since
from scheduler.operators.explain import host
from scheduler.operators.explain.decision_commands import FoundDecision, RecordedQuestion, read_log
from scheduler.operators.shown.shown import Shown

LOG = logging.getLogger(f"nova.{__name__}")

#: Requests of different flavors or zones, which decisions do not explain, that are looked at as of now.
MOST_LOOKED_AT = 3


class Host(RecordedQuestion):
    """Explain why a host is not chosen: its status, and how the latest requests treated it.

    With --decision: the result of each filter for this host in one decision. If the decision does not have
    it, the filters run again on the host as it is now.
    """

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        parser.add_argument("host", metavar="HOST", help="a service host, a node name or the UUID of a node")
        parser.add_argument(
            "--decision",
            metavar="REQUEST_ID|INSTANCE_UUID",
            help="explain the host for the latest decision on this request or instance",
        )
        parser.add_argument(
            "--now",
            action="store_true",
            help="with --decision: also run Placement's query and every filter on the host as it is now",
        )
        add_since(parser, 0.0)
        return parser

    def show(self, args: argparse.Namespace) -> Shown | None:
        return self._show_decision(args) if args.decision else self._show_host(args)

    # -- a host ----------------------------------------------------------------------------------------------

    def _show_host(self, args: argparse.Namespace) -> Shown | None:
        state = None if args.log else self._state(args)
        if state and not state.nodes:
            _complain_of_unknown(args.host)
            return None
        # documents have no UUIDs
        named = [node.node for node in (state.nodes if state else ()) if node.uuid == args.host]
        name = named[0] if named else args.host
        history = self._history(args, name)
        found = [] if args.log else list(self._looked_at(args, history))
        document = {
            "host": args.host,
            "state": msgspec.to_builtins(state),
            "history": msgspec.to_builtins(history, str_keys=True),
            "now": [{"request": each.latest, **msgspec.to_builtins(node)} for each, node in found],
            "remedies": host.remedies(state, history, found),
        }
        return host.shown(args.host, document, state, history, found)

    def _state(self, args: argparse.Namespace) -> HostStatus:
        return msgspec.convert(self.ask_one(args, "host_status", host=args.host), HostStatus)

    def _history(self, args: argparse.Namespace, name: str) -> HostHistory:
        """Return what became of a host in the decisions that schedulers keep, or a log has.

        Raises:
            NotAnswered: No scheduler answers, or the log cannot be read.
        """
        if args.log:
            return read_log(args.log, lambda log: history_of(log.decisions(args.since), name))
        answers = self.ask(args, "host_history", host=name, since=args.since)
        return merged(msgspec.convert(answer, HostHistory, str_keys=True) for answer in answers.values())

    def _looked_at(
        self, args: argparse.Namespace, history: HostHistory
    ) -> Iterator[tuple[Unexplained, NodeNow]]:
        """Yield requests that decisions do not explain, with the filters' results on the host as of now."""
        for each in itertools.islice(history.unexplained, MOST_LOOKED_AT):
            known = self.find_decision(args, each.latest)
            now = known and self._now(args, known)
            yield from ((each, node) for node in (now.nodes[:1] if now else ()))

    # -- a decision ------------------------------------------------------------------------------------------

    def _show_decision(self, args: argparse.Namespace) -> Shown | None:
        known = self.find_decision(args, args.decision)
        if known is None:
            return None
        decision = known.decision
        named = list(rendering.hosts(decision))
        found = [line for line in named if args.host in (line.host, line.node)]
        is_explained = found and all(line.reason or line.outcome != REJECTED for line in found)
        now = None if is_explained and not args.now else self._now(args, known)
        if not found and now:
            places = {(node.host, node.node) for node in now.nodes}
            found = [line for line in named if (line.host, line.node) in places]
        if not found and not (now and now.nodes):
            _complain_of_unknown(args.host)
            return None
        then = [(line, list(rendering.verdicts(decision, line))) for line in found]
        document = {
            "request_id": decision.request_id,
            "time": decision.time,
            "scheduler": known.scheduler,
            "host": args.host,
            "then": [
                {**line._asdict(), "verdicts": [one._asdict() for one in verdicts]} for line, verdicts in then
            ],
            "now": msgspec.to_builtins(now),
        }
        return host.shown_in_decision(document, decision, then, now, known.scheduler)

    def _now(self, args: argparse.Namespace, known: FoundDecision) -> HostNow | None:
        """Return the filters' results on a host as of now; None with --log, or if no request was kept.

        Raises:
            NotAnswered: No scheduler answers.
        """
        decision = known.decision
        spec = decision.request_spec()
        if args.log or spec is None:
            LOG.warning(
                "The decision does not say more about %s, and no scheduler can be queried about it", args.host
            )
            return None
        question = {"spec_obj": spec, "instances": decision.instances, "host": args.host}
        return msgspec.convert(self.ask_one(args, "host_now", **question), HostNow)


def _complain_of_unknown(host: str) -> None:
    LOG.error("No compute node of an enabled cell has the host, node name or UUID %s", host)
