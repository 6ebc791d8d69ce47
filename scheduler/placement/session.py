"""From the options of ``[placement]`` to something that sends requests (spec: placement-and-workflow 3.1)."""

from dataclasses import dataclass

from keystoneauth1 import exceptions, loading, noauth, token_endpoint
from keystoneauth1.adapter import Adapter

from scheduler.placement.errors import PlacementAuthFailure

GROUP = "placement"

# Connections kept open. Threads beyond that number open one for a single request, and nobody waits.
POOL_SIZE = 128


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Seconds to wait for a connection, and for bytes; ``search`` is for GET /allocation_candidates.

    nova's ``[placement]timeout`` replaces all of them. Without it nova waits for ever; we do not.
    """

    connect: float = 10.0
    read: float = 15.0
    search: float = 60.0

    @classmethod
    def of(cls, timeout: float | None) -> "Timeouts":
        """The value of the option, or the defaults where it is unset."""
        return cls(timeout, timeout, timeout) if timeout else cls()


def make_adapter(conf) -> Adapter:
    """An adapter for Placement; nothing is sent yet.

    The options ``version``, ``min_version`` and ``max_version`` have no effect, as in nova.

    :raises PlacementAuthFailure: no ``auth_type``, an unknown one, or its options are incomplete.
    """
    auth = _auth(conf)
    try:
        session = loading.load_session_from_conf_options(conf, GROUP, auth=auth, app_name="berth-scheduler")
        ignored = {"version": None, "min_version": None, "max_version": None}
        adapter = loading.load_adapter_from_conf_options(conf, GROUP, session=session, **ignored)
    except (TypeError, ValueError, exceptions.ClientException) as error:
        raise PlacementAuthFailure(f"[{GROUP}]: {error}") from error
    adapter.raise_exc = False
    # Keystone is asked through the same session, and must not be waited for without end either.
    session.timeout = session.timeout or Timeouts().read
    open_pool(session)
    return adapter


def _auth(conf):
    section = conf[GROUP].auth_section
    if section:
        # Any name will do for it, so nobody can have registered its options.
        loading.register_auth_conf_options(conf, section)
    try:
        auth = loading.load_auth_from_conf_options(conf, GROUP)
    except exceptions.ClientException as error:
        raise PlacementAuthFailure(f"[{GROUP}]: {error}") from error
    if auth is None:
        raise PlacementAuthFailure(f"[{GROUP}]auth_type is not set: Placement would not let anybody in")
    if isinstance(auth, noauth.NoAuth):
        # A Placement without Keystone reads the token as the user, and lets only this one in.
        return token_endpoint.Token(auth.endpoint or conf[GROUP].endpoint_override, "admin")
    return auth


def open_pool(session) -> None:
    """Give the session a pool without connections; those it had are not used any more."""
    for transport in set(session.session.adapters.values()):
        transport.init_poolmanager(POOL_SIZE, POOL_SIZE)
