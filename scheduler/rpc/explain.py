"""Questions about decisions: a topic of its own, its server in each scheduler, and its callers.

Each scheduler listens under the name of its host, as its decisions are in its memory alone.
Only contexts of administrators are answered. Nothing can be changed here.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
import inspect
import threading
import time
from typing import Any, NamedTuple

from oslo_config import cfg
import oslo_messaging as messaging

from scheduler import errors
from scheduler.decisions.memory import MOST_ENTRIES
from scheduler.rpc import checks
from scheduler.rpc.bus import Bus
from scheduler.rpc.context import RequestContext
from scheduler.rpc.methods import LONGEST_TEXT, Method, Methods
from scheduler.rpc.serializer import LARGEST_ARGUMENT, ObjectSerializer
from scheduler.rpc.server import Server

TOPIC = "berth-explain"
VERSION = "4.0"

#: Questions that are answered at once.
THREADS = 2

Answer = Callable[..., object]


class AdminRequired(errors.BerthError):
    """The question comes from a context without an administrator's rights."""


def methods(answers: Mapping[str, Answer]) -> Methods:
    """Return the questions that a scheduler answers, by what answers each of them."""
    table = {question: Method(VERSION, partial(_ask, answer)) for question, answer in answers.items()}
    return Methods(table, serializer=ObjectSerializer(LARGEST_ARGUMENT))


def _ask(answer: Answer, context: RequestContext, /, **arguments: object) -> object:
    """Answer a question.

    Raises:
        AdminRequired: The context is not that of an administrator.
        InvalidRequest: An argument is missing, not known, or of a wrong type.
    """
    if not context.is_admin:
        raise AdminRequired("Questions about decisions are answered to administrators only")
    try:
        inspect.signature(answer).bind(**arguments)
    except TypeError as error:
        raise errors.InvalidRequest(str(error)[:LONGEST_TEXT]) from None
    return answer(**{name: _CHECKS[name](value, name) for name, value in arguments.items()})


_CHECKS: Mapping[str, Callable[[object, str], object]] = {
    "name": checks.text,
    "host": checks.text,
    "project": lambda value, name: None if value is None else checks.text(value, name),
    "failed": checks.flag,
    "since": checks.number,
    "at_most": lambda value, name: int(min(checks.number(value, name), MOST_ENTRIES)),
}


def build(conf: cfg.ConfigOpts, bus: Bus, answers: Mapping[str, Answer]) -> Server:
    """Return the server of a scheduler, not started."""
    return Server(conf, bus, methods(answers), TOPIC, THREADS)


# -- callers ---------------------------------------------------------------------------------------------


class Raised(str):
    """The error that a scheduler answered with, in contrast to a reason why there is no answer."""

    __slots__ = ()


class Answers(NamedTuple):
    """What the schedulers answered.

    Attributes:
        found: What each scheduler answered, by its host.
        failed: Why there is no answer, or ``Raised`` for an error, by the host of the scheduler.
    """

    found: dict[str, Any]
    failed: dict[str, str]


class Schedulers:
    """Asks the schedulers of some hosts at the same time; every wait is bounded."""

    def __init__(self, transport: messaging.Transport, hosts: Iterable[str], timeout: float) -> None:
        """Ask the schedulers of ``hosts``; nothing is connected to yet.

        Args:
            transport: What ``transport.rpc_transport`` returned.
            hosts: ``[DEFAULT]/host`` of each scheduler.
            timeout: Seconds that an answer may take, and that a broker may take to be reached.
        """
        self._hosts = list(dict.fromkeys(hosts))
        self._timeout, self._no_answer = timeout, f"no answer within {timeout:g} seconds"
        self._client = messaging.get_rpc_client(
            transport,
            messaging.Target(topic=TOPIC, version=VERSION),
            timeout=timeout,
            serializer=ObjectSerializer(),
            retry=0,
        )

    def ask(self, method: str, /, hosts: Iterable[str] | None = None, **arguments: object) -> Answers:
        """Return what the schedulers of some hosts answer; None: of all."""
        answers, end = Answers({}, {}), time.monotonic() + self._timeout + 1
        asked = self._hosts if hosts is None else list(hosts)
        # daemon threads: a broker that is away may keep one longer than the command runs
        threads = [
            threading.Thread(target=self._ask, args=(host, method, arguments, answers), daemon=True)
            for host in asked
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        found = {host: answers.found[host] for host in asked if host in answers.found}
        silent = [host for host in asked if host not in found]
        return Answers(found, {host: answers.failed.get(host, self._no_answer) for host in silent})

    def _ask(self, host: str, method: str, arguments: Mapping[str, object], answers: Answers) -> None:
        try:
            call = self._client.prepare(server=host)
            answers.found[host] = call.call(RequestContext(is_admin=True), method, **arguments)
        except messaging.MessagingTimeout:
            answers.failed[host] = self._no_answer
        except (messaging.MessageDeliveryFailure, OSError) as error:
            answers.failed[host] = one_line(error)
        except BaseException as error:  # noqa: BLE001 - what a scheduler raised, under whatever name
            answers.failed[host] = Raised(one_line(error))


def one_line(error: BaseException) -> str:
    """Return an error of a scheduler or of the bus as one line."""
    name = getattr(error, "exc_type", None) or type(error).__name__
    text = str(getattr(error, "value", None) or error).strip()
    return f"{name}: {text.splitlines()[0] if text else 'no text'}"
