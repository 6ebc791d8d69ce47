"""[placement], [neutron], [service_user]: authentication and endpoints of other services.

keystoneauth owns these options (spec: wire-and-config 6.5, placement-and-workflow 3.1).
"""

import contextlib
import dataclasses

from keystoneauth1 import exceptions, loading
from oslo_config import cfg

SAMPLE_PLUGINS = ("password", "v3password")


@dataclasses.dataclass(frozen=True)
class AuthGroup:
    """A group of authentication options, with those of an endpoint unless ``service_type`` is None."""

    group: str
    service_type: str | None = None
    extra: tuple = ()


SERVICES = (
    AuthGroup("placement", "placement"),
    AuthGroup(
        "neutron",
        "network",
        extra=(
            cfg.IntOpt(
                "http_retries",
                default=3,
                min=0,
                help="Number of times that a request to Neutron is repeated after a connection failure.",
            ),
        ),
    ),
    AuthGroup(
        "service_user",
        extra=(
            cfg.BoolOpt(
                "send_service_user_token",
                default=False,
                help="Send a token of this service with the token of the user, so that long operations "
                "continue after the user's token has expired.",
            ),
        ),
    ),
)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the three groups; ``register_plugins`` adds those of the plugins."""
    for service in SERVICES:
        conf.register_opts(list(service.extra), group=service.group)
        loading.register_session_conf_options(conf, service.group)
        loading.register_auth_conf_options(conf, service.group)
        if service.service_type:
            # nova ignores interface; keystoneauth refuses it together with the default of valid_interfaces
            loading.register_adapter_conf_options(conf, service.group, include_deprecated=False)
            conf.set_default("service_type", service.service_type, group=service.group)
            conf.set_default("valid_interfaces", ["internal", "public"], group=service.group)


def register_plugins(conf: cfg.ConfigOpts) -> None:
    """Register the options of the chosen authentication plugins, so that their values are checked at start.

    ``auth_section`` may name any group, even one without registered options. An unknown plugin is ignored
    here and is an error when it is loaded.
    """
    for group in auth_groups(conf):
        loading.register_auth_conf_options(conf, group)
        if conf[group].auth_type:
            with contextlib.suppress(exceptions.NoMatchingPlugin):
                plugin = loading.get_auth_plugin_conf_options(conf[group].auth_type)
                conf.register_opts(plugin, group=group)


def auth_groups(conf: cfg.ConfigOpts) -> set[str]:
    """Return the groups from which the services' credentials are read."""
    return {conf[service.group].auth_section or service.group for service in SERVICES}


def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Return (group, options) pairs for the sample file, with the options of the usual plugins."""
    return [(service.group, _sample(service)) for service in SERVICES]


def _sample(service: AuthGroup) -> list[cfg.Opt]:
    options = [*service.extra, *loading.get_session_conf_options(), *loading.get_auth_common_conf_options()]
    if service.service_type:
        adapter = loading.get_adapter_conf_options(include_deprecated=False)
        interfaces = ["internal", "public"]
        cfg.set_defaults(adapter, service_type=service.service_type, valid_interfaces=interfaces)
        options += adapter
    names = {option.name for option in options}
    for plugin in SAMPLE_PLUGINS:
        for option in loading.get_auth_plugin_conf_options(plugin):
            if option.name not in names:
                names.add(option.name)
                options.append(option)
    return options
