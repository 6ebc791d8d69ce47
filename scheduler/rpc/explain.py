"""Questions about decisions: a topic of its own, its server in each worker, and its callers.

Each worker listens under a name of its own, ``HOST.NUMBER``, as its decisions are in its memory alone.
Only contexts of administrators are answered. Nothing can be changed here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
import functools
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from oslo_config import cfg
from oslo_log import log as logging
import oslo_messaging as messaging

from scheduler import errors
from scheduler.rpc import checks
from scheduler.rpc.amqp import library
from scheduler.rpc.amqp.listener import stopping_soon
from scheduler.rpc.broker_errors import refusals_as_config_errors
from scheduler.rpc.context import RequestContext
from scheduler.rpc.endpoints import Endpoint, Method, answering
from scheduler.rpc.serializer import ObjectSerializer, ServerSerializer

if TYPE_CHECKING:
    from scheduler.decisions.explainer import Explainer

LOG = logging.getLogger(f"nova.{__name__}")

TOPIC = "berth-explain"
VERSION = "2.2"

#: The version of the questions, and of those that came later: schedulers of the last release are asked too.
ASKED, ASKED_LATER = "2.1", {"waiting": "2.2"}

#: Entries of one list.
MOST_ENTRIES = 10_000


class WorkerAnswer(TypedDict):
    """What a worker sends: its name, how many workers its daemon has, and the answer as JSON."""

    scheduler: str
    workers: int
    answer: Any


class AdminRequired(errors.BerthError):
    """The question comes from a context without an administrator's rights."""


def server_name(host: str, worker: int) -> str:
    """Return the name under which a worker listens."""
    return f"{host}.{worker}"


def _for_admins(method: Method) -> Method:
    """Decorate a question: the answer of a worker has its name, and how many its daemon has."""

    @answering
    @functools.wraps(method)
    def ask(self: "Explanations", context: RequestContext, **arguments: object) -> WorkerAnswer:
        if not context.is_admin:
            raise AdminRequired("Questions about decisions are answered to administrators only")
        answer = method(self, context, **arguments)
        return {"scheduler": self._name, "workers": self._workers, "answer": answer}

    return ask


class Explanations(Endpoint):
    """The questions that a worker answers."""

    target = messaging.Target(version=VERSION)

    def __init__(self, explainer: "Explainer", name: str, workers: int) -> None:
        """Answer with the explainer of a worker.

        Args:
            name: The name of the worker.
        """
        super().__init__()
        self._explainer = explainer
        self._name = name
        self._workers = workers

    @_for_admins
    def decision(self, context: RequestContext, name: object) -> object:
        """Return the document of the latest decision on a request id or an instance, as JSON."""
        return self._explainer.decision(checks.text(name, "name"))

    @_for_admins
    def host_now(self, context: RequestContext, spec_obj: object, instances: object, host: object) -> object:
        """Say what Placement and each filter say of a host for a recorded request as of now."""
        spec, uuids = checks.request_spec(spec_obj), checks.text_list(instances, "instances")
        return self._explainer.host_now(spec, uuids, checks.text(host, "host"))

    @_for_admins
    def waiting(self, context: RequestContext) -> object:
        """List the requests in progress, and what each of them waits for."""
        return self._explainer.waiting()

    @_for_admins
    def host_history(self, context: RequestContext, host: object, since: object = 0) -> object:
        """Say what became of a host in the latest decisions."""
        name, began = checks.text(host, "host"), checks.number(since, "since")
        return self._explainer.host_history(name, began)

    @_for_admins
    def host_status(self, context: RequestContext, host: object) -> object:
        """Say how a host is as of now."""
        return self._explainer.host_status(checks.text(host, "host"))

    @_for_admins
    def decisions(
        self,
        context: RequestContext,
        failed: object = False,
        since: object = 0,
        project: object = None,
        at_most: object = 100,
    ) -> object:
        """List the latest decisions."""
        return self._explainer.decisions(
            failed=checks.flag(failed, "failed"),
            since=checks.number(since, "since"),
            project=None if project is None else checks.text(project, "project"),
            at_most=int(min(checks.number(at_most, "at_most"), MOST_ENTRIES)),
        )


class _Server(library.RPCServer):
    def _create_listener(self) -> library.PollStyleListenerAdapter:
        with refusals_as_config_errors():
            return stopping_soon(super()._create_listener())


def build(
    conf: cfg.ConfigOpts, transport: messaging.Transport, explainer: "Explainer", worker: int, workers: int
) -> library.RPCServer:
    """Return the server of a worker, not started.

    Args:
        worker: The number of the worker, from 0.
    """
    name = server_name(conf.host, worker)
    return messaging.get_rpc_server(
        transport,
        messaging.Target(topic=TOPIC, server=name),
        [Explanations(explainer, name, workers)],
        serializer=ServerSerializer(),
        access_policy=messaging.DefaultRPCAccessPolicy,
        server_cls=_Server,
    )


# -- callers ---------------------------------------------------------------------------------------------


class Raised(str):
    """The error that a scheduler answered with, in contrast to a reason why there is no answer."""

    __slots__ = ()


class Answers(NamedTuple):
    """What the workers of all schedulers answered.

    Attributes:
        found: What each worker answered, by its name.
        failed: Why there is no answer, or ``Raised`` for an error, by the name of the worker.
    """

    found: dict[str, Any]
    failed: dict[str, str]


class Schedulers:
    """Asks the workers of some hosts at the same time; every wait is bounded."""

    def __init__(
        self,
        transport: messaging.Transport,
        hosts: Iterable[str],
        timeout: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Ask the schedulers of ``hosts``; nothing is connected to yet.

        Args:
            transport: What ``transport.rpc_transport`` returned.
            hosts: ``[DEFAULT]/host`` of each scheduler.
            timeout: Seconds that an answer may take, and that a broker may take to be reached.
        """
        self._hosts = list(dict.fromkeys(hosts))
        self._timeout = timeout
        self._clock = clock
        self._client = messaging.get_rpc_client(
            transport,
            messaging.Target(topic=TOPIC, version=ASKED),
            timeout=timeout,
            serializer=ObjectSerializer(),
            retry=0,
        )

    def ask(self, method: str, **arguments: object) -> Answers:
        """Return what all workers answer. The answer of the first worker of a host has their number."""
        answers = Answers({}, {})
        first = [server_name(host, 0) for host in self._hosts]
        replies = self._ask_all(first, method, arguments, answers)
        more = [
            server_name(host, number)
            for host, name in zip(self._hosts, first, strict=True)
            for number in range(1, replies[name]["workers"] if name in replies else 1)
        ]
        self._ask_all(more, method, arguments, answers)
        return answers

    def ask_worker(self, worker: str, method: str, **arguments: object) -> Answers:
        """Return what one worker answers, by the name that it has in ``Answers``."""
        answers = Answers({}, {})
        self._ask_all([worker], method, arguments, answers)
        return answers

    def ask_one(self, method: str, **arguments: object) -> Answers:
        """Return what the first scheduler answers that does; the others are not asked."""
        answers = Answers({}, {})
        for host in self._hosts:
            self._ask_all([server_name(host, 0)], method, arguments, answers)
            if answers.found:
                break
        return answers

    def _ask_all(
        self, names: Sequence[str], method: str, arguments: Mapping[str, object], answers: Answers
    ) -> dict[str, WorkerAnswer]:
        calls = {name: self._begin(name, method, arguments) for name in names}
        end = self._clock() + self._timeout + 1
        replies: dict[str, WorkerAnswer] = {}
        for name, call in calls.items():
            try:
                replies[name] = call.result(max(0.0, end - self._clock()))
                answers.found[name] = replies[name]["answer"]
            except (FutureTimeout, messaging.MessagingTimeout):
                answers.failed[name] = f"no answer within {self._timeout:g} seconds"
            except (messaging.MessageDeliveryFailure, OSError) as error:
                answers.failed[name] = one_line(error)
            except Exception as error:  # noqa: BLE001 - what a scheduler raised, under whatever name
                answers.failed[name] = Raised(one_line(error))
        return replies

    def _begin(self, name: str, method: str, arguments: Mapping[str, object]) -> Future[WorkerAnswer]:
        # a daemon thread: a broker that is away may keep it longer than the command runs
        future: Future[WorkerAnswer] = Future()
        call = self._client.prepare(server=name, version=ASKED_LATER.get(method, ASKED))

        def run() -> None:
            try:
                future.set_result(call.call(RequestContext(is_admin=True), method, **arguments))
            except BaseException as error:  # noqa: BLE001 - raised again where the result is read
                future.set_exception(error)

        threading.Thread(target=run, name=f"ask {name}", daemon=True).start()
        return future


def one_line(error: BaseException) -> str:
    """Return an error of a scheduler or of the bus as one line."""
    name = getattr(error, "exc_type", None) or type(error).__name__
    text = str(getattr(error, "value", None) or error).strip()
    return f"{name}: {text.splitlines()[0] if text else 'no text'}"
