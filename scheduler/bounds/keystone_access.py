"""Tokens and the catalog of Keystone, so that a Keystone that is away costs requests little.

keystoneauth lets one thread at a time request a token, and the others wait for it without a bound; if the
first one fails the next one requests it, and so on. Here the others wait for a bounded time. After a failure
they fail at once until Keystone has answered again; its circuit breaker lets one of them try from time to
time.
"""

from collections.abc import Callable
import threading
from typing import Any

from keystoneauth1 import exceptions
from keystoneauth1.plugin import BaseAuthPlugin

from scheduler.bounds import deadline
from scheduler.bounds.circuit_breaker import CircuitBreaker, CircuitOpen
from scheduler.bounds.waits import waiting_for

#: The errors of a Keystone that is away. Discovery hides those of its connection.
AWAY = (exceptions.ConnectionError, exceptions.DiscoveryFailure)

#: Seconds that a thread waits for another one that requests a token: discovery, then the token.
WAIT_TIMEOUT = 30.0

#: Seconds between two probes of Keystone at most.
MAX_PROBE_INTERVAL = 2.0


def guarded(get_access: Callable[..., Any], breaker: CircuitBreaker) -> Callable[..., Any]:
    """Return what stands in for ``get_access`` of an identity plugin, the source of all its tokens.

    It raises ``ConnectFailure`` if Keystone is left out, or another thread is still waiting for it.
    """
    lock = threading.Lock()

    def access(session: Any, **options: Any) -> Any:
        patience = WAIT_TIMEOUT if breaker.open_reason is None else 0.0
        with waiting_for("a token of Keystone"):
            if not lock.acquire(timeout=deadline.current().bound(patience)):
                raise exceptions.ConnectFailure("Keystone has not answered another thread yet")
            try:
                with breaker.guard(*AWAY):
                    return get_access(session, **options)
            except CircuitOpen as error:
                raise exceptions.ConnectFailure(str(error)) from None
            finally:
                lock.release()

    return access


def guard(auth: BaseAuthPlugin | None, what: str) -> None:
    """Guard the access of an authentication plugin, if it uses Keystone at all."""
    get_access = getattr(auth, "get_access", None)
    if get_access is not None:
        breaker = CircuitBreaker(f"Keystone ([{what}])", max_probe_interval=MAX_PROBE_INTERVAL)
        auth.get_access = guarded(get_access, breaker)  # type: ignore[union-attr]
