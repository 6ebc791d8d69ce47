"""HTTP to Placement: every wait bounded, and after a failure always known what it means.

A failed write is either certainly not carried out (``PlacementUnreachable``) or of unknown outcome
(``PlacementUnanswered``); the difference decides what a claim may do next.
spec: placement-and-workflow 3

An answer of Placement, or of something in front of it: nothing about its body is taken for granted.

The aggregates of a provider, for requests on routed networks (spec: filters-and-weighers 4).
"""

from dataclasses import dataclass
import os
import ssl
import threading
import time
from urllib.parse import quote

from keystoneauth1 import exceptions
import orjson
from oslo_log import log
import requests
import urllib3

from scheduler.logs import RateLimitedLogger
from scheduler.placement.errors import PlacementAuthFailure, PlacementUnanswered, PlacementUnreachable
from scheduler.placement.session import Timeouts, make_adapter, open_pool


@dataclass(frozen=True, slots=True)
class Reply:
    """Status and body. An error of Placement has a ``code`` and a ``detail``; both are empty otherwise."""

    status: int
    body: bytes = b""

    @property
    def data(self) -> dict:
        """The body if it is a JSON object, else an empty one."""
        try:
            data = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {}
        return data if isinstance(data, dict) else {}

    @property
    def text(self) -> str:
        """The body for a log line: at most 2000 characters of it."""
        return self.body[:2000].decode("utf-8", "replace").strip()

    @property
    def error(self) -> dict:
        """The first error of an error body, else an empty dict."""
        errors = self.data.get("errors")
        first = errors[0] if isinstance(errors, list) and errors else None
        return first if isinstance(first, dict) else {}

    @property
    def code(self) -> str:
        """Such as ``placement.concurrent_update``."""
        return str(self.error.get("code") or "")

    @property
    def detail(self) -> str:
        """What the error says to a human, blanks and line breaks evened out."""
        return " ".join(str(self.error.get("detail") or "").split())

    @property
    def summary(self) -> str:
        """Status and reason, for whoever has to go without what was asked."""
        return f"Placement answers {self.status}: {self.detail or self.text}"


LOG = log.getLogger(__name__)

NEEDED_VERSION = (1, 36)

# How often a new catalog is asked for while the old one leads nowhere; seconds.
CATALOG_PATIENCE = 30.0

_NOT_SENT = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.ConnectTimeoutError,
    ssl.SSLCertVerificationError,
)


class PlacementClient:
    """Sends requests to Placement; shared by all threads.

    ``adapter`` is keystoneauth's, made by ``session.make_adapter``.
    """

    def __init__(self, adapter, timeouts: Timeouts = Timeouts()) -> None:  # noqa: B008 - it is immutable
        self._adapter = adapter
        self._timeouts = timeouts
        self._warn = RateLimitedLogger(LOG)
        self._pid = os.getpid()
        self._catalog_lock = threading.Lock()
        self._catalog_due = 0.0

    @classmethod
    def from_conf(cls, conf) -> "PlacementClient":
        """From the options of ``[placement]``; raises PlacementAuthFailure, sends nothing."""
        return cls(make_adapter(conf), Timeouts.of(conf.placement.timeout))

    def start(self) -> None:
        """See whether Placement is there. Whatever may pass by itself is a warning: each request looks again.

        :raises PlacementAuthFailure: Keystone refuses the credentials.
        """
        try:
            self._adapter.get_token()
        except exceptions.Unauthorized as error:
            raise PlacementAuthFailure(f"Keystone refuses the credentials of [placement]: {error}") from error
        except exceptions.ClientException as error:
            LOG.warning("Keystone gives no token for Placement yet: %s", error)
            return
        self._check_version()

    def get(self, path: str, version: str, context=None, *, search: bool = False) -> Reply:
        """GET ``path``. ``search`` gives it the time, and spares it the debug log, of a large answer.

        Transport retries of ``[placement]`` apply, and a kept-alive connection that turns out to be closed
        does not count.

        :raises PlacementUnreachable, PlacementUnanswered: no answer.
        """
        read = self._timeouts.search if search else self._timeouts.read
        options = {"timeout": (self._timeouts.connect, read), "log": not search, "stream": search}
        try:
            return self._send("GET", path, version, context, **options)
        except PlacementUnanswered as error:
            if error.timed_out:
                raise
        return self._send("GET", path, version, context, **options)

    def write(
        self, method: str, path: str, version: str | None, context=None, body: bytes | None = None
    ) -> Reply:
        """PUT, POST or DELETE, sent once at most: only what was certainly not sent is tried again.

        :param version: microversion; None sends no header, which is 1.0.
        :param body: bytes of JSON, or None.
        :raises PlacementUnreachable: not carried out.
        :raises PlacementUnanswered: outcome unknown.
        """
        retries = self._adapter.connect_retries or 0
        for number in range(retries + 1):
            try:
                return self._send_once(method, path, version, context, body)
            except PlacementUnreachable as error:
                if number == retries:
                    raise
                LOG.debug("%s %s is sent again: %s", method, path, error)
                time.sleep(self._retry_delay(number))
        raise AssertionError("not reached")  # pragma: no cover

    def _send_once(self, method, path, version, context, body) -> Reply:
        self._prepare()
        return self._send(
            method,
            path,
            version,
            context,
            data=body,
            timeout=(self._timeouts.connect, self._timeouts.read),
            connect_retries=0,
            status_code_retries=0,
        )

    def _prepare(self) -> None:
        # Token and endpoint come first, so that a failure of Keystone is not mistaken for one of the write.
        try:
            self._adapter.get_token()
            endpoint = self._adapter.get_endpoint()
        except exceptions.ClientException as error:
            raise self._failure(error, sent=False) from error
        if not endpoint:
            raise self._failure(exceptions.EndpointNotFound(), sent=False)

    def _send(self, method, path, version, context, **options) -> Reply:
        if os.getpid() != self._pid:
            # A worker must not talk on a connection that its parent and siblings have as well.
            open_pool(self._adapter.session)
            self._pid = os.getpid()
        try:
            answer = self._adapter.request(
                path, method, headers=_headers(version, context, options), **options
            )
            # in one piece: ``content`` reads a large answer 10 kB at a time, and takes six times as long
            return Reply(answer.status_code, b"".join(answer.iter_content(None)))
        except (exceptions.ClientException, requests.exceptions.RequestException) as error:
            raise self._failure(error, sent=_was_sent(error)) from error

    def _failure(self, error: Exception, *, sent: bool) -> Exception:
        self._warn.warning(type(error).__name__, "Placement API service is not responding: %s", error)
        if sent:
            return PlacementUnanswered(str(error), timed_out=_timed_out(error))
        self._renew_catalog()
        return PlacementUnreachable(str(error) or type(error).__name__)

    def _renew_catalog(self) -> None:
        """A catalog lives as long as its token; one without Placement, or with an old address, must not."""
        with self._catalog_lock:
            if time.monotonic() < self._catalog_due:
                return
            self._catalog_due = time.monotonic() + CATALOG_PATIENCE
        self._adapter.invalidate()

    def _retry_delay(self, number: int) -> float:
        return self._adapter.connect_retry_delay or min(0.5 * 2**number, 60.0)

    def _check_version(self) -> None:
        try:
            reply = self._send("GET", "/", None, None, timeout=self._timeouts.connect, authenticated=False)
        except (PlacementUnreachable, PlacementUnanswered):
            return
        newest = _newest_version(reply)
        if newest is None:
            LOG.warning(
                "Placement answers %s to a request for its versions; looking again later", reply.status
            )
        elif newest < NEEDED_VERSION:
            LOG.warning("Placement offers API version %d.%d, 1.36 is needed", *newest)


def _headers(version, context, options) -> dict:
    headers = {"Accept": "application/json"}
    if version:
        headers["OpenStack-API-Version"] = f"placement {version}"
    if options.get("data") is not None:
        headers["Content-Type"] = "application/json"
    if context is not None and context.global_id:
        headers["X-Openstack-Request-Id"] = context.global_id
    return headers


def _newest_version(reply: Reply) -> tuple[int, int] | None:
    try:
        major, minor = reply.data["versions"][0]["max_version"].split(".")
        return int(major), int(minor)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None


def _was_sent(error: BaseException) -> bool:
    transport = _transport_error(error)
    if transport is None:
        # Keystone refused, or the catalog has no such service.
        return False
    return not any(isinstance(cause, _NOT_SENT) for cause in _causes(transport))


def _timed_out(error: BaseException) -> bool:
    transport = _transport_error(error)
    kinds = (requests.exceptions.Timeout, urllib3.exceptions.ReadTimeoutError)
    return transport is not None and any(isinstance(cause, kinds) for cause in _causes(transport))


def _transport_error(error: BaseException) -> requests.exceptions.RequestException | None:
    """What the HTTP library said, which keystoneauth wraps."""
    for candidate in (error, error.__context__):
        if isinstance(candidate, requests.exceptions.RequestException):
            return candidate
    return None


def _causes(error: BaseException):
    """The error and those inside it, in arguments and reasons as requests and urllib3 nest them.

    Not the Python context: that may lead to the failure of an earlier request.
    """
    todo = [error]
    while todo:
        cause = todo.pop()
        if isinstance(cause, BaseException):
            yield cause
            todo += [getattr(cause, "reason", None), *cause.args]


VERSION = "1.19"


class ProviderAggregates:
    """Asks each time: ``(context, provider UUID)`` → UUIDs of its aggregates."""

    def __init__(self, client: PlacementClient) -> None:
        self._client = client

    def __call__(self, context, provider: str) -> list[str]:
        """Empty for a provider that does not exist.

        :raises PlacementSilent: no answer, or none that tells.
        """
        path = f"/resource_providers/{quote(provider, safe='')}/aggregates"
        reply = self._client.get(path, VERSION, context)
        if reply.status not in {200, 404}:
            text = (
                f"Placement answers {reply.status} to a question for aggregates: {reply.detail or reply.text}"
            )
            raise PlacementUnreachable(text)
        return reply.data.get("aggregates") or []
