"""Groups whose options belong to a library: databases, messaging, logging, reports.

spec: wire-and-config 6.6

They are registered before the options are parsed: nova's defaults replace those of the libraries, and a wrong
value is found at start and not during a request.

oslo.messaging is imported late: importing it decides how oslo.service runs services, which the program must
choose (see scheduler.cmd).
"""

from collections.abc import Iterator
import copy
import functools
import importlib

from oslo_concurrency import opts as concurrency
from oslo_config import cfg
from oslo_db import options as db
from oslo_log import log, versionutils
from oslo_reports import opts as reports
from oslo_service import _options as service

CONTROL_EXCHANGE = "nova"
GRACEFUL_SHUTDOWN_TIMEOUT = 180
LOG_LEVELS = ("glanceclient=WARN", "oslo.privsep.daemon=INFO")
DATABASES = ("database", "api_database")

# Drivers that nova's RPC does not use: a wrong value in their groups does not prevent the start.
FOREIGN = ("oslo_messaging_kafka",)


def register(conf: cfg.ConfigOpts) -> None:
    """Register the libraries' options, with nova's defaults where those differ."""
    log.register_options(conf)
    conf.register_opts(versionutils.deprecated_opts)
    conf.register_opts([*service.service_opts, *service.eventlet_backdoor_opts])
    reports.set_defaults(conf)
    for group, options in [*_messaging(), *concurrency.list_opts(), *list_opts()]:
        conf.register_opts(options, group=group)
    conf.set_default("control_exchange", CONTROL_EXCHANGE)
    conf.set_default("graceful_shutdown_timeout", GRACEFUL_SHUTDOWN_TIMEOUT)
    conf.set_default("default_log_levels", [*log.get_default_log_levels(), *LOG_LEVELS])


def set_library_defaults() -> None:
    """Set nova's defaults in the libraries themselves. Only oslo-config-generator calls this."""
    cfg.set_defaults(service.service_opts, graceful_shutdown_timeout=GRACEFUL_SHUTDOWN_TIMEOUT)
    log.set_defaults(default_log_levels=[*log.get_default_log_levels(), *LOG_LEVELS])
    from oslo_messaging import transport

    transport.set_transport_defaults(CONTROL_EXCHANGE)


@functools.cache
def list_opts() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Return (group, options) pairs of the databases, always the same; the other libraries list their own."""
    return [(group, copy.deepcopy(db.database_opts)) for group in DATABASES]


def _messaging() -> list[tuple[str | None, list[cfg.Opt]]]:
    """Return the objects that oslo.messaging itself registers, not the copies that it lists.

    oslo.config marks an option once it has warned of its deprecation. A copy without the mark is a duplicate.
    """
    from oslo_messaging import opts as messaging

    groups = [(group, options) for group, options in messaging._opts if group not in FOREIGN]  # noqa: SLF001
    return [*groups, *_unlisted()]


def _unlisted() -> Iterator[tuple[str | None, list[cfg.Opt]]]:
    """Yield groups that oslo.messaging reads at each call but does not list."""
    for name in ("metrics", "tracing"):
        try:
            module = importlib.import_module(f"oslo_messaging._{name}.client")
        except ImportError:  # tracing is younger than the oldest release supported
            continue
        group = f"oslo_messaging_{name}"
        yield group, getattr(module, group)
