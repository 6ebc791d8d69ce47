"""berth-scheduler --check-config: can the daemon start with these options, and which ones were changed?

It opens no connection. Only the handlers of ``[DEFAULT]/log_config_append`` may open files.
"""

from collections.abc import Callable, Iterator
from itertools import groupby
import logging
import logging.config
import signal
import sys
from typing import Any

from oslo_config import cfg

from scheduler import conf as options
from scheduler import logs
from scheduler.conf.log_output import log_output
from scheduler.conf.registry import registered
from scheduler.daemon.options_trial import TRIAL_TIMEOUT
from scheduler.daemon.service import ServiceParts
from scheduler.errors import BerthError, ConfigError
from scheduler.health.access import Access, Address
from scheduler.rpc import transport

MASK = "****"


#: Exit status of --check-config --strict if there are warnings.
WARNINGS = 4


def check(conf: cfg.ConfigOpts, make_parts: Callable[[cfg.ConfigOpts], ServiceParts]) -> int:
    """Print what differs from the defaults, and warnings; then try whether the daemon could be built.

    The rules of operators are loaded for that, in this process, which does nothing else.

    Args:
        make_parts: Returns the parts of the daemon.

    Returns:
        The exit status: that of ``--strict`` counts warnings.

    Raises:
        ConfigError: The daemon would not start with these options.
    """
    files = [*conf.config_file, *conf.config_dir]
    print(f"# Configuration: {', '.join(files) or 'no file'}")
    for line in differences(conf):
        print(line)
    print()
    output = log_output(conf)
    if output is not None and output.places:
        print(f"Log: {output}")
    warnings = list(options.remarks(conf))
    for remark in warnings:
        print(f"Warning: {remark}")
    sys.stdout.flush()
    signal.alarm(TRIAL_TIMEOUT)  # ends the process if a rule hangs
    try:
        _build(conf, make_parts(conf))
    finally:
        signal.alarm(0)
    print("The configuration can be used")
    return WARNINGS if warnings and conf.strict else 0


def _build(conf: cfg.ConfigOpts, parts: ServiceParts) -> None:
    findings: list[str] = []
    steps = (_set_up_logging, options.check_files, _check_monitoring, transport.rpc_transport, parts.manager)
    logging.disable(logging.ERROR)  # each error is a finding
    try:
        for step in steps:
            try:
                step(conf)
            except ConfigError as error:
                findings += error.findings
            except BerthError as error:
                findings.append(str(error))
            except BaseException as error:  # noqa: BLE001 - a rule of an operator may raise anything
                findings.append(f"{type(error).__name__}: {error}")
    finally:
        logging.disable(logging.NOTSET)
    if findings:
        raise ConfigError(*dict.fromkeys(findings))


def _set_up_logging(conf: cfg.ConfigOpts) -> None:
    path = conf.log_config_append
    if not path:
        return
    try:
        logging.config.fileConfig(path, disable_existing_loggers=False)
    except Exception as error:
        raise ConfigError(f"[DEFAULT]/log_config_append: {path}: {error}") from error


def _check_monitoring(conf: cfg.ConfigOpts) -> None:
    if conf.berth.monitoring_listen:
        Access.from_conf(conf, Address.parse(conf.berth.monitoring_listen))


def differences(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield the options whose values differ from their defaults, as lines of a configuration file."""
    changed = (each for each in registered(conf) if _is_changed(conf, *each))
    for group, found in groupby(
        sorted(changed, key=lambda each: (each[0], each[1].dest)), lambda each: each[0]
    ):
        yield f"\n[{group}]"
        for _, option, default in found:
            value = _values(conf, group)[option.dest]
            note = "" if option.secret else f"  # default: {_text(default)}"
            for each in value if option.multi else [value]:
                yield f"{option.dest} = {MASK if option.secret else _text(each)}{note}"


def _values(conf: cfg.ConfigOpts, group: str) -> Any:
    return conf if group == "DEFAULT" else conf[group]


def _is_changed(conf: cfg.ConfigOpts, group: str, option: cfg.Opt, default: Any) -> bool:
    where = conf.get_location(option.dest, None if group == "DEFAULT" else group)
    set_by_user = where is not None and where.location.is_user_controlled
    return (
        set_by_user
        and option.dest not in options.OF_COMMAND_LINE
        and _values(conf, group)[option.dest] != default
    )


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, dict):
        value = [f"{key}:{each}" for key, each in value.items()]
    if isinstance(value, list):
        return ", ".join(map(_text, value)) or "empty"
    return logs.sanitize(str(value).lower() if isinstance(value, bool) else str(value))
