"""What pre-filters read from Neutron, over keystoneauth1.

Ports are read with the rights of the user of the request, segments with the scheduler's own
(spec: wire-and-config 2.2, 6.5, filters-and-weighers 4.10, 4.11).
"""

from collections.abc import Mapping
import math
from typing import Any

from keystoneauth1 import adapter, exceptions, loading, service_token, token_endpoint
from keystoneauth1.access.service_catalog import ServiceCatalogV2
from oslo_log import log as logging

from scheduler import errors
from scheduler.bounds import deadline, keystone_access
from scheduler.bounds.bounded_http import bound_responses
from scheduler.bounds.circuit_breaker import CircuitBreaker, CircuitOpen
from scheduler.bounds.waits import waiting_for
from scheduler.logs import RateLimitedLogger

LOG = logging.getLogger(f"nova.{__name__}")

GROUP = "neutron"
SERVICE_USER_GROUP = "service_user"

# Seconds for a connection or an answer, if [neutron]timeout is unset; nova waits without a bound.
DEFAULT_TIMEOUT = 30

# Consecutive timeouts after which Neutron is not queried until a probe succeeds.
TIMEOUTS_IN_A_ROW = 3


class NeutronNetwork:
    """Neutron's API v2.0. Each call is bounded by the session's timeout and the connection retries.

    Args:
        session: A keystoneauth1 session; its ``auth`` is the scheduler's own, and may be None.
        endpoint_options: ``service_type``, ``service_name``, ``interface``, ``region_name``,
            ``endpoint_override`` as keystoneauth1 adapters take them.
        connect_retries: How often a connection that failed is tried again.
        service_auth: What makes the service token that goes with users' tokens; None sends none.
    """

    def __init__(
        self, session, endpoint_options: Mapping[str, Any], connect_retries: int = 0, service_auth=None
    ) -> None:
        self._session = session
        self._endpoint_options = dict(endpoint_options)
        self._connect_retries = connect_retries
        self._service_auth = service_auth
        self._warnings = RateLimitedLogger(LOG)
        self._breaker = CircuitBreaker("Neutron", failures=TIMEOUTS_IN_A_ROW)

    @classmethod
    def from_conf(cls, conf) -> "NeutronNetwork":
        """Return the client that ``[neutron]`` and ``[service_user]`` describe; nothing is sent yet.

        Options: those of keystoneauth1, ``http_retries``, ``send_service_user_token``.
        """
        auth = _load_auth(conf, GROUP)
        session = loading.load_session_from_conf_options(conf, GROUP, auth=auth)
        if session.timeout is None:
            session.timeout = float(DEFAULT_TIMEOUT)
        bound_responses(session.session)
        return cls(
            session,
            endpoint_options={
                "service_type": conf.neutron.service_type,
                "service_name": conf.neutron.service_name,
                "interface": conf.neutron.valid_interfaces,
                "region_name": conf.neutron.region_name,
                "endpoint_override": conf.neutron.endpoint_override,
            },
            connect_retries=conf.neutron.http_retries,
            service_auth=_service_auth(conf),
        )

    def port(self, context, port_id: str) -> Mapping[str, Any]:
        """Return the port, as its user sees it.

        Raises:
            PortNotFound: There is none, or not for this user.
            NetworkError: Anything else.
        """
        missing = errors.PortNotFound(port_id)
        return self._read(context, "port", port_id, Mapping, f"/ports/{port_id}", own=False, missing=missing)

    def segments_of_network(self, context, network_id: str) -> list[str]:
        """UUIDs of the segments that the network's subnets are on; none if it is not routed.

        Raises:
            NetworkError: Neutron did not respond, or with an error.
        """
        params = {"network_id": network_id, "fields": "segment_id"}
        subnets = self._read(context, "subnets", f"of network {network_id}", list, "/subnets", params)
        return [subnet["segment_id"] for subnet in subnets if subnet.get("segment_id")]

    def segment_of_subnet(self, context, subnet_id: str) -> str | None:
        """UUID of the segment that the subnet is on, if any.

        Raises:
            NetworkError: Neutron did not respond, or with an error.
        """
        params = {"fields": "segment_id"}
        subnet = self._read(context, "subnet", subnet_id, Mapping, f"/subnets/{subnet_id}", params)
        return subnet.get("segment_id")

    def _read(
        self,
        context,
        name: str,
        which: str,
        kind: type,
        path: str,
        params: Mapping[str, str] | None = None,
        *,
        own: bool = True,
        missing: Exception | None = None,
    ) -> Any:
        """Return what an answer has under a name; raise ``missing``, if given, where Neutron has none."""
        try:
            body = self._ask(self._adapter(context, own=own), path, params).json()
        except exceptions.ClientException as error:
            if missing and isinstance(error, exceptions.NotFound):
                raise missing from error
            raise self._as_network_error(f"{name} {which}", error) from error
        except ValueError as error:
            raise errors.NetworkError(f"Neutron's answer to GET {path} is not JSON") from error
        value = body.get(name) if isinstance(body, Mapping) else None
        if not isinstance(value, kind):
            raise errors.NetworkError(f"Neutron's answer has no {name}")
        return value

    def _ask(self, client: adapter.Adapter, path: str, params: Mapping[str, str] | None) -> Any:
        """Send a GET; its timeout is that of the session, or what the deadline of the request leaves."""
        limit = deadline.current()
        if limit.expired:
            raise errors.NetworkError("The caller no longer waits for what Neutron answers")
        timeout = limit.bound(self._session.timeout or math.inf)
        options: dict[str, Any] = {} if timeout == math.inf else {"timeout": timeout}
        try:
            with waiting_for("Neutron"), self._breaker.guard(exceptions.ConnectTimeout):
                endpoint = client.get_endpoint()
                if not endpoint:
                    raise errors.NetworkError("No endpoint of Neutron is known")
                url = f"{endpoint.rstrip('/').removesuffix('/v2.0')}/v2.0{path}"
                return client.get(url, params=params, connect_retries=self._connect_retries, **options)
        except CircuitOpen as error:
            raise exceptions.ConnectFailure(str(error)) from None

    def _adapter(self, context, *, own: bool) -> adapter.Adapter:
        """Return an adapter with the scheduler's own rights, if it has any, or with those of the user."""
        token = getattr(context, "auth_token", None)
        # Requests of nova itself (an evacuation, for example) have no user's token, but are admin's.
        if self._session.auth is not None and (own or (not token and getattr(context, "is_admin", False))):
            auth, options = self._session.auth, self._endpoint_options
        elif token:
            endpoint = self._endpoint_options.get("endpoint_override") or self._endpoint_for(context)
            auth, options = token_endpoint.Token(endpoint, token), {"endpoint_override": endpoint}
            if self._service_auth is not None:
                auth = service_token.ServiceTokenAuthWrapper(user_auth=auth, service_auth=self._service_auth)
        else:
            raise errors.NetworkUnauthorized("The request has no token for Neutron")
        return adapter.Adapter(
            self._session,
            auth=auth,
            global_request_id=getattr(context, "global_id", None),
            user_agent="berth-scheduler",
            **options,
        )

    def _as_network_error(self, what: str, error: exceptions.ClientException) -> errors.NetworkError:
        self._warnings.warning(type(error).__name__, "Reading %s from Neutron failed: %s", what, error)
        if isinstance(error, exceptions.Unauthorized):
            return errors.NetworkUnauthorized(f"Neutron refused the token for {what}")
        if isinstance(error, exceptions.Forbidden):
            return errors.NetworkForbidden(f"Neutron forbids to read {what}")
        return errors.NetworkError(f"Reading {what} from Neutron failed: {error}")

    def _endpoint_for(self, context) -> str:
        options = {
            name: self._endpoint_options.get(name) for name in ("service_type", "interface", "region_name")
        }
        catalog = ServiceCatalogV2(getattr(context, "service_catalog", None) or [])
        endpoint = catalog.url_for(**options) if catalog.catalog else None
        if endpoint is None and self._session.auth is not None:
            endpoint = self._session.get_endpoint(**options)
        if endpoint is None:
            raise errors.NetworkError("Neither the request's catalog nor the scheduler's names Neutron")
        return endpoint


def _load_auth(conf, group: str):
    # Most clouds use users' tokens only: unusable credentials must not prevent the daemon from starting.
    try:
        auth = loading.load_auth_from_conf_options(conf, group)
    except exceptions.AuthPluginException as error:
        LOG.warning("Cannot use the credentials in [%s]; continuing without them: %s", group, error)
        return None
    keystone_access.guard(auth, group)
    return auth


def _service_auth(conf):
    if not conf.service_user.send_service_user_token:
        return None
    auth = _load_auth(conf, SERVICE_USER_GROUP)
    if auth is None:
        LOG.warning(
            "[service_user]/send_service_user_token is set, but auth_type is not; sending no service token"
        )
    return auth
