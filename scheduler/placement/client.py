"""HTTP to Placement: every wait is bounded, and failures say whether the request may have been carried out.

A failed write was either certainly not carried out (``PlacementUnreachable``) or has an unknown outcome
(``PlacementUnanswered``); the difference decides what a claim may do next (spec: placement-and-workflow 3).
"""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
import math
import threading
import time
from typing import Any

from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from oslo_config import cfg
from oslo_log import log

from scheduler.bounds import deadline
from scheduler.bounds.circuit_breaker import CircuitBreaker, CircuitOpen
from scheduler.bounds.waits import waiting_for
from scheduler.placement.errors import (
    PlacementAuthFailure,
    PlacementSilent,
    PlacementUnanswered,
    PlacementUnreachable,
    certificate_refused,
    timed_out,
    was_sent,
)
from scheduler.placement.reply import Reply
from scheduler.placement.session import Timeouts, make_adapter

LOG = log.getLogger(f"nova.{__name__}")

NEEDED_VERSION = (1, 36)

# Timeouts in a row, without any answer in between, after which requests to Placement fail at once until a
# probe was answered. A probe is a small request that is sent before the one that is due.
TIMEOUTS_IN_A_ROW = 3
MAX_PROBE_INTERVAL = 2.0
PROBE_TIMEOUT = 2.0

# How many times the usual timeout a search may take of a Placement that is slow: it answers checks in time.
LONGEST_SEARCH = 8

#: In place of the semaphore of an adapter, which lets each request sleep for as long as the wall clock was
#: set back since the adapter was made, beyond all time limits.
NO_RATE_LIMIT = nullcontext()

# A provider that does not exist: the cheapest question that uses credentials and database.
NO_PROVIDER = "00000000-0000-0000-0000-000000000000"

# Seconds between requests for a new catalog while the old one leads to no Placement.
CATALOG_INTERVAL = 30.0


class PlacementClient:
    """Sends requests to Placement; shared by all threads."""

    def __init__(
        self,
        adapter: Adapter,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - it is immutable
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        searches: Adapter | None = None,
    ) -> None:
        """Send through ``adapter``.

        Args:
            adapter: As ``session.make_adapter`` makes it.
            clock: Seconds.
            sleep: Waits so many seconds.
            searches: An adapter for searches, with the same credentials; None: the same.
        """
        self._adapter = adapter
        self._searches = searches or adapter
        self._timeouts = timeouts
        self._clock = clock
        self._sleep = sleep
        self._breaker = CircuitBreaker(
            "Placement", clock, failures=TIMEOUTS_IN_A_ROW, max_probe_interval=MAX_PROBE_INTERVAL
        )
        self._catalog_lock = threading.Lock()
        self._catalog_due = -math.inf
        self._problem: str | None = None
        self._used_at = -math.inf
        self._longer = 1
        self._search_timed_out = False

    @property
    def answers(self) -> bool | None:
        """Whether Placement answered these credentials at the last request; None before the first one."""
        return None if self._problem is None else not self._problem

    @property
    def problem(self) -> str:
        """Why not, in words of our own, without addresses; "" if it did, or there was no request yet."""
        return self._problem or ""

    def check(self, unused_for: float = 0.0) -> str:
        """Ask Placement for a provider that does not exist, unless it has answered something lately.

        Takes little more than ``PROBE_TIMEOUT``.

        Args:
            unused_for: Seconds since its last answer after which it is asked.

        Returns:
            Why no Placement answers these credentials; "" if one does. Any web server answers something, so
            the response must have a list of providers.
        """
        if self.answers and self._clock() - self._used_at < unused_for:
            return ""
        options = {"timeout": PROBE_TIMEOUT, "connect_retries": 0, "status_code_retries": 0}
        path = f"/resource_providers?uuid={NO_PROVIDER}"
        try:
            reply = self._send("GET", path, "1.36", None, probing=True, **options)
        except PlacementSilent as error:
            return f"{self.problem}: {error}"
        if not self.problem and "resource_providers" not in reply.data:
            self._note(_no_placement(reply.status))
        if self.problem:
            return f"{self.problem}: {reply.summary}"
        if self._search_timed_out:
            self._search_timed_out = False
            self._longer = min(2 * self._longer, LONGEST_SEARCH)
        return ""

    @classmethod
    def from_conf(cls, conf: cfg.ConfigOpts) -> "PlacementClient":
        """Make the client that the options of ``[placement]`` describe; nothing is sent.

        Raises:
            PlacementAuthFailure: They name no usable credentials.
        """
        adapter = make_adapter(conf)
        searches = make_adapter(conf, adapter.session.auth)
        return cls(adapter, Timeouts.of(conf.placement.timeout), searches=searches)

    def start(self) -> None:
        """Check that Placement answers. Failures that may pass are warnings only: each request tries again.

        Raises:
            PlacementAuthFailure: Keystone refuses the credentials.
        """
        try:
            self._adapter.get_token()
        except exceptions.Unauthorized as error:
            raise PlacementAuthFailure(f"Keystone refuses the credentials of [placement]: {error}") from error
        except (exceptions.ClientException, OSError) as error:
            LOG.warning(
                "Cannot get a token for Placement from Keystone: %s; the next request tries again", error
            )
            return
        self._check_version()

    def get(self, path: str, version: str, context: Any = None, *, search: bool = False) -> Reply:
        """Send a GET.

        The transport retries of ``[placement]`` apply; a kept-alive connection that turns out to be closed is
        not counted as one.

        Args:
            path: Path and query.
            version: The microversion.
            context: The request context whose id is sent along.
            search: Whether a large response is to be expected: it has more time, no debug log, and a
                connection of its own. A kept-alive one leads to the same process of Placement each time,
                which may be busy with another search.

        Raises:
            PlacementSilent: There was no response.
        """

        def send() -> Reply:
            timeout = self._timeout(search=search)  # what is left by now
            return self._send("GET", path, version, context, timeout=timeout, log=not search, stream=search)

        try:
            return send()
        except PlacementUnanswered as error:
            if error.timed_out:
                raise
        return send()

    def write(
        self, method: str, path: str, version: str | None, context: Any = None, body: bytes | None = None
    ) -> Reply:
        """Send a PUT, POST or DELETE; it is sent again only if it was certainly not sent before.

        Args:
            version: The microversion; None sends no header, which is 1.0.
            context: The request context whose id is sent along.
            body: Bytes of JSON, or None.

        Raises:
            PlacementUnreachable: The request was not carried out.
            PlacementUnanswered: Its outcome is unknown.
        """
        retries = self._adapter.connect_retries or 0
        for number in range(retries + 1):
            try:
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
            except PlacementUnreachable as error:
                if number == retries:
                    raise
                LOG.debug("%s %s was not sent (%s); sending it again", method, path, error)
                with waiting_for("the next attempt to connect to Placement"):
                    self._sleep(self._adapter.connect_retry_delay or min(0.5 * 2**number, 60.0))
        raise AssertionError("not reached")  # pragma: no cover

    def _timeout(self, *, search: bool) -> tuple[float, float]:
        """Return the seconds for connecting and for the response.

        Only a search ends with the deadline of the request: what follows a claim has to be done in any case.

        Raises:
            PlacementUnreachable: The deadline has passed.
        """
        if not search:
            return self._timeouts.connect, self._timeouts.read
        limit = deadline.current()
        if limit.expired:
            raise PlacementUnreachable("the caller no longer waits for an answer")
        return limit.bound(self._timeouts.connect), limit.bound(self._longer * self._timeouts.search)

    def _prepare(self) -> None:
        # Token and endpoint come first, so that a failure of Keystone is not mistaken for one of the write.
        try:
            self._adapter.get_token()
            endpoint = self._adapter.get_endpoint()
        except (exceptions.ClientException, OSError) as error:
            raise self._failure(error, sent=False) from error
        if not endpoint:
            raise self._failure(exceptions.EndpointNotFound(), sent=False)

    def _admit(self) -> None:
        """Return if Placement is to be asked: it is not left out, or a probe that was due is answered.

        Raises:
            PlacementUnreachable: It is left out.
        """
        if self._breaker.open_reason is None:
            return
        try:
            self._breaker.check()
        except CircuitOpen as error:
            raise PlacementUnreachable(str(error)) from None
        try:
            self._send("GET", "/", None, None, probing=True, timeout=PROBE_TIMEOUT, authenticated=False)
        except PlacementSilent as error:
            raise PlacementUnreachable(str(error)) from error

    def _send(
        self,
        method: str,
        path: str,
        version: str | None,
        context: Any,
        *,
        probing: bool = False,
        **options: Any,
    ) -> Reply:
        """Send a request, unless Placement is left out; a probe is sent all the same.

        A probe that times out does not count for the circuit breaker.
        """
        if not probing:
            self._admit()
        begun_at, search = self._clock(), bool(options.get("stream"))
        try:
            adapter = self._searches if search else self._adapter
            headers = _headers(version, context, options)
            if adapter is not self._adapter:
                # Not in the pool of writes: one could go out on a connection that the server is closing.
                headers["Connection"] = "close"
            with waiting_for(f"Placement ({method} {path.partition('?')[0]})"):
                answer = adapter.request(
                    path, method, headers=headers, rate_semaphore=NO_RATE_LIMIT, **options
                )
                # in one piece: ``content`` reads a large answer 10 kB at a time, and takes six times as long
                reply = Reply(answer.status_code, b"".join(answer.iter_content(None)), answer.headers)
        except (exceptions.ClientException, OSError) as error:  # plain OSError: a certificate file
            if timed_out(error) and not probing:
                self._search_timed_out |= search
                self._breaker.failed(str(error), begun_at)
            raise self._failure(error, sent=was_sent(error)) from error
        self._breaker.reset()
        if search:
            self._longer, self._search_timed_out = 1, False
        if options.get("authenticated", True):
            self._note(_problem_of_reply(reply))
        return reply

    def _note(self, problem: str) -> None:
        self._problem, self._used_at = problem, self._clock()

    def _failure(self, error: Exception, *, sent: bool) -> PlacementSilent:
        self._note(_problem_of_error(error))
        LOG.debug("Request to Placement failed: %s", error)
        if sent:
            return PlacementUnanswered(str(error), timed_out=timed_out(error))
        self._renew_catalog()
        return PlacementUnreachable(str(error) or type(error).__name__)

    def _renew_catalog(self) -> None:
        """Ask for a new catalog; one without Placement would else be used as long as its token lasts."""
        with self._catalog_lock:
            if self._clock() < self._catalog_due:
                return
            self._catalog_due = self._clock() + CATALOG_INTERVAL
        self._adapter.invalidate()

    def _check_version(self) -> None:
        try:
            reply = self._send("GET", "/", None, None, timeout=self._timeouts.connect, authenticated=False)
        except PlacementSilent:
            return
        newest = newest_version(reply)
        if newest is None:
            LOG.warning(
                "Cannot read the API version of Placement: GET / returned HTTP %s; the next request "
                "tries again",
                reply.status,
            )
        elif newest < NEEDED_VERSION:
            LOG.warning("Placement offers API version %d.%d; 1.36 is needed", *newest)


def _problem_of_reply(reply: Reply) -> str:
    """Return why a response is none of a Placement that accepts these credentials; "" if it is one."""
    status = reply.status
    if status == 401:
        return "HTTP 401: it does not accept the token of the user of [placement]"
    if status == 403:
        return "HTTP 403: the user of [placement] lacks the rights"
    if status >= 500:
        return f"HTTP {status}"
    # Placement has JSON in each body, and an error in that of each 404
    is_page = reply.body[:1] not in {b"", b"{"} or 300 <= status < 400
    return _no_placement(status) if is_page or (status == 404 and not reply.error) else ""


def _no_placement(status: int) -> str:
    return (
        f"HTTP {status}: not a response of Placement; check [placement]/endpoint_override, or the endpoint "
        "in Keystone's catalog"
    )


def _problem_of_error(error: Exception) -> str:
    if isinstance(error, exceptions.Unauthorized):
        return "Keystone refuses the credentials of [placement]"
    if isinstance(error, exceptions.EndpointNotFound):
        return "the catalog of Keystone has no endpoint of Placement"
    if certificate_refused(error):
        return "a certificate is not trusted; check [placement]/cafile"
    return "timed out" if timed_out(error) else "no connection"


def _headers(version: str | None, context: Any, options: Mapping[str, Any]) -> dict[str, str]:
    headers = {"Accept": "application/json"}
    if version:
        headers["OpenStack-API-Version"] = f"placement {version}"
    if options.get("data") is not None:
        headers["Content-Type"] = "application/json"
    if context is not None and context.global_id:
        headers["X-Openstack-Request-Id"] = context.global_id
    return headers


def newest_version(reply: Reply) -> tuple[int, int] | None:
    """Return the newest version that the response to ``GET /`` names; None if it is not of Placement."""
    try:
        major, minor = reply.data["versions"][0]["max_version"].split(".")
        return int(major), int(minor)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return None
