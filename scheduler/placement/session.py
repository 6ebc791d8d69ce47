"""The session and adapter that ``[placement]`` describes (spec: placement-and-workflow 3.1)."""

from dataclasses import dataclass

from keystoneauth1 import exceptions, loading, noauth, token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.plugin import BaseAuthPlugin
from oslo_config import cfg
from requests.adapters import HTTPAdapter

from scheduler.bounds import keystone_access
from scheduler.bounds.bounded_http import bound_responses
from scheduler.placement.errors import PlacementAuthFailure

GROUP = "placement"

# Connections kept open. Threads beyond that number open one for a single request; none has to wait.
POOL_SIZE = 128


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for Placement.

    nova's ``[placement]timeout`` replaces all of them. Without it nova waits without a bound.

    Attributes:
        connect: For a connection.
        read: For a whole response.
        search: For the whole response to ``GET /allocation_candidates``.
    """

    connect: float = 10.0
    read: float = 15.0
    search: float = 60.0

    @classmethod
    def of(cls, timeout: float | None) -> "Timeouts":
        """Return the timeouts for a value of the option; the defaults where it is unset."""
        return cls(timeout, timeout, timeout) if timeout else cls()


def make_adapter(conf: cfg.ConfigOpts, auth: BaseAuthPlugin | None = None) -> Adapter:
    """Return an adapter for Placement with connections of its own; nothing is sent yet.

    The options ``version``, ``min_version`` and ``max_version`` have no effect, as in nova.

    Args:
        auth: The credentials of another adapter; None: those of the options.

    Raises:
        PlacementAuthFailure: There is no ``auth_type``, an unknown one, or its options are incomplete.
    """
    if auth is None:
        auth = _auth(conf)
        keystone_access.guard(auth, GROUP)
    try:
        session = loading.load_session_from_conf_options(conf, GROUP, auth=auth, app_name="berth-scheduler")
        ignored = {"version": None, "min_version": None, "max_version": None}
        adapter = loading.load_adapter_from_conf_options(conf, GROUP, session=session, **ignored)
    except (TypeError, ValueError, exceptions.ClientException) as error:
        raise PlacementAuthFailure(f"[{GROUP}]: {error}") from error
    adapter.raise_exc = False
    # Requests to Keystone use the same session, so that this wait is bounded too.
    session.timeout = session.timeout or Timeouts().read
    for transport in set(session.session.adapters.values()):
        if isinstance(transport, HTTPAdapter):
            transport.init_poolmanager(POOL_SIZE, POOL_SIZE)
    bound_responses(session.session)
    return adapter


def _auth(conf: cfg.ConfigOpts) -> BaseAuthPlugin:
    section = conf[GROUP].auth_section
    if section:
        # The section may have any name, so its options are not registered elsewhere.
        loading.register_auth_conf_options(conf, section)
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
    except exceptions.ClientException as error:
        raise PlacementAuthFailure(f"[{GROUP}]: {error}") from error
    if auth is None:
        raise PlacementAuthFailure(f"[{GROUP}]auth_type is not set: Placement needs credentials")
    if isinstance(auth, noauth.NoAuth):
        # A Placement without Keystone reads the token as the user, and admits only this one.
        return token_endpoint.Token(auth.endpoint or conf[GROUP].endpoint_override, "admin")
    return auth
