"""berth-explain host: why a host was not chosen for a request, or is never chosen."""

import argparse
from collections.abc import Iterator
import itertools
import logging

import msgspec

from scheduler.decisions import rendering
from scheduler.decisions.document import REJECTED, Decision
from scheduler.decisions.host_history import HostHistory, Unexplained, history_of, merged
from scheduler.operators.app import add_since
from scheduler.operators.explain import host, host_now
from scheduler.operators.explain.decision_commands import RecordedQuestion, read_log
from scheduler.operators.explain.host_now import HostNow, HostStatus
from scheduler.operators.shown.shown import Shown

LOG = logging.getLogger(f"nova.{__name__}")

#: Requests of different flavors or zones, which decisions do not explain, that are looked at as of now.
MOST_LOOKED_AT = 3


class HostCommand(RecordedQuestion):
    """Explain why a host is not chosen: its status, and how the latest requests treated it.

    With --decision: the result of each filter for this host in one decision. If the decision does not have
    it, the request is decided again for this host alone as it is now.
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
            help="with --decision: also decide the request again for this host alone, as it is now",
        )
        add_since(parser, 0.0)
        return parser

    def show(self, args: argparse.Namespace) -> Shown | None:
        return self._show_decision(args) if args.decision else self._show_host(args)

    # -- a host ----------------------------------------------------------------------------------------------

    def _show_host(self, args: argparse.Namespace) -> Shown | None:
        if args.log:
            return self._shown(args, None, self._history(args, args.host), [])
        with host_now.read(self.conf, args.host) as now:
            if not now.is_known:
                _complain_of_unknown(args.host)
                return None
            state = now.status()
            # documents have no UUIDs
            named = [node.node for node in state.nodes if node.uuid == args.host]
            history = self._history(args, named[0] if named else args.host)
            return self._shown(args, state, history, list(self._looked_at(args, history, now)))

    @staticmethod
    def _shown(
        args: argparse.Namespace, state: HostStatus | None, history: HostHistory, found: host.Found
    ) -> Shown:
        document = {
            "host": args.host,
            "state": msgspec.to_builtins(state),
            "history": msgspec.to_builtins(history, str_keys=True),
            "now": [{"request": each.latest, "decision": host.document(now)} for each, now in found],
            "remedies": host.remedies(state, history, found),
        }
        return host.shown(args.host, document, state, history, found)

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
        self, args: argparse.Namespace, history: HostHistory, now: HostNow
    ) -> Iterator[tuple[Unexplained, Decision]]:
        """Yield requests that decisions do not explain, with what is decided on them for this host now."""
        for each in itertools.islice(history.unexplained, MOST_LOOKED_AT):
            known = self.find_decision(args, each.latest)
            found = known and now.decide(known.decision)
            if found:
                yield each, found

    # -- a decision ------------------------------------------------------------------------------------------

    def _show_decision(self, args: argparse.Namespace) -> Shown | None:
        known = self.find_decision(args, args.decision)
        if known is None:
            return None
        decision = known.decision
        found = [line for line in rendering.hosts(decision) if args.host in (line.host, line.node)]
        is_explained = found and all(line.reason or line.outcome != REJECTED for line in found)
        now = None if is_explained and not args.now else self._now(args, decision)
        if not (found or now):
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
            "now": host.document(now) if now else None,
        }
        return host.shown_in_decision(args.host, document, decision, then, now, known.scheduler)

    def _now(self, args: argparse.Namespace, decision: Decision) -> Decision | None:
        """Return what is decided for the host now; None with --log, if there is no such host or request."""
        if args.log or decision.request_spec() is None:
            LOG.warning("The decision does not say more about %s, and the host is not read now", args.host)
            return None
        with host_now.read(self.conf, args.host) as now:
            return now.decide(decision) if now.is_known else None


def _complain_of_unknown(host: str) -> None:
    LOG.error("No compute node of an enabled cell has the host, node name or UUID %s", host)
