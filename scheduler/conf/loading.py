"""Loading: from a command line and files to options whose values are valid."""

from collections.abc import Callable, Iterator, Mapping, Sequence
import re
import tempfile
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from scheduler import errors
from scheduler.conf import derived, keystone, partitions, registry
from scheduler.conf.files import sections, tls_file_problems

LOG = logging.getLogger(f"nova.{__name__}")

PROG = "berth-scheduler"

# nova's directories are searched for nova.conf, then for <prog>.conf
PROJECT = "nova"
_SEARCHED = "~/.nova, ~, /etc/nova and /etc"

CHECK = cfg.BoolOpt(
    "check-config",
    default=False,
    help="Check that the daemon can start with this configuration, print the options that differ from their "
    "defaults, and exit: 0 if it can, otherwise 1. It opens no connection.",
)

STRICT = cfg.BoolOpt(
    "strict",
    default=False,
    help="With --check-config: exit with 4 if there are warnings.",
)

OF_COMMAND_LINE = ("config_file", "config_dir", CHECK.dest, STRICT.dest)
"""Options about the configuration itself."""

_WRONG_VALUE = re.compile(
    r"Value for option \S+ from LocationInfo\(location=.*?, detail=['\"](?P<place>.*?)['\"]\) is not valid: "
    r"(?P<reason>.*)",
    re.DOTALL,
)
_UNKNOWN_REFERENCE = (
    "it has a $ before a word that is not the name of an option known here; $$ stands for one $"
)
_NOT_A_NUMBER = {
    r"invalid literal for int\(\) with base 10: (.*)": "a whole number",
    r"could not convert string to float: (.*)": "a number",
}


def new() -> cfg.ConfigOpts:
    """Return a ConfigOpts with every option registered and nothing parsed."""
    conf = cfg.ConfigOpts()
    registry.register(conf)
    return conf


def load(
    argv: Sequence[str],
    prog: str = PROG,
    version: str | None = None,
    default_config_files: list[str] | None = None,
) -> cfg.ConfigOpts:
    """Parse a command line and its files; without --config-file, those found (spec: wire-and-config 6.1).

    Raises:
        ConfigError: A file cannot be read, or an option has a wrong value.
        SystemExit: 2 for an unknown argument, 0 for --help and --version.
    """
    conf = new()
    conf.register_cli_opts([CHECK, STRICT])
    try:
        conf(argv, project=PROJECT, prog=prog, version=version, default_config_files=default_config_files)
    except (cfg.Error, OSError, UnicodeDecodeError) as error:
        raise errors.ConfigError(f"Configuration cannot be read: {_reason(error)}") from None
    partitions.register_sections(conf)
    validate(conf)
    derived.set_heartbeat_default(conf)
    return conf


def validate(conf: cfg.ConfigOpts) -> None:
    """Read every registered option once, since oslo.config converts a value only when it is read.

    Raises:
        ConfigError: Options have wrong values; the text names each. Unregistered options are ignored.
    """
    problems = list(_problems(conf))
    if not problems:
        keystone.register_plugins(conf)
        for group in sorted(keystone.auth_groups(conf)):
            problems += _problems(conf[group], group)
        problems += partitions.problems(conf)
    if problems:
        raise errors.ConfigError(*problems)


def plain_reason(text: str) -> str:
    """Return oslo.config's text on a wrong value without the repr of the place: the reason, then the file."""
    found = _WRONG_VALUE.fullmatch(text)
    reason = found["reason"] if found else text
    for pattern, kind in _NOT_A_NUMBER.items():
        reason = re.sub(pattern, rf"\1 is not {kind}", reason)
    return f"{reason} (in {found['place']})" if found and found["place"] else reason


def require_databases(conf: cfg.ConfigOpts) -> None:
    """Check that the API database is given.

    Raises:
        ConfigError: It is not.
    """
    if conf.api_database.connection:
        return
    problem = "[api_database]/connection is not set: the cells cannot be found"
    if not conf.config_file and not conf.config_dir:
        searched = (
            f"{PROJECT}.conf and {conf.prog}.conf, or directories {PROJECT}.conf.d and {conf.prog}.conf.d"
        )
        problem = f"No configuration file was found: there are no {searched}, in {_SEARCHED}. {problem}"
    raise errors.ConfigError(problem)


def check_files(conf: cfg.ConfigOpts) -> None:
    """Check that a directory can be created in [DEFAULT]/tempdir, and that certificates and keys can be read.

    Raises:
        ConfigError: A directory cannot be created, or a file cannot be opened.
    """
    groups = ("placement", "oslo_messaging_rabbit")
    if problems := [text for group in groups for text in tls_file_problems(conf, group)]:
        raise errors.ConfigError(*problems)
    try:
        with tempfile.TemporaryDirectory(dir=conf.tempdir):
            pass
    except OSError as error:
        raise errors.ConfigError(
            f"[DEFAULT]/tempdir: no temporary directory can be created: {error}"
        ) from error


def reload(
    conf: cfg.ConfigOpts,
    argv: Sequence[str],
    check: Callable[[cfg.ConfigOpts], None] | None = None,
) -> bool:
    """Re-read the files and apply the mutable options, all of them or none.

    A wrong value changes nothing and is logged. The same holds for files that change during the check, which
    takes seconds: only values that were checked apply. oslo.config itself logs changes of
    other options as ignored.

    Args:
        argv: The command line that they were loaded from.
        check: Receives the new options before anything is changed; raises ``ConfigError`` to refuse them.

    Returns:
        Whether the options were applied.
    """
    refusal = None
    try:
        before = list(sections(conf))
        changed = load(argv, conf.prog, default_config_files=conf.default_config_files)
        if check is not None:
            check(changed)
        if list(sections(conf)) != before:
            raise errors.ConfigError(
                "the files changed while they were read; send SIGHUP once they are complete"
            )
        if partitions.all_partitions(changed) != partitions.all_partitions(conf):
            LOG.warning("Changed [%sNAME] sections take effect at the next start", partitions.PREFIX)
        conf.mutate_config_files()
    except (errors.ConfigError, cfg.Error) as error:
        refusal = _reason(error)
    if refusal:  # not in the except block: oslo.log would append the error that is being handled
        LOG.error("Changed configuration refused, all options stay as they were: %s", refusal)
    return refusal is None


def _reason(error: Exception) -> str:
    """Return the text of an error, without the line that cannot be parsed: it may be a password."""
    parsing = error.__context__
    if isinstance(error, cfg.ConfigFileParseError):
        line = f", line {parsing.lineno}: {parsing.msg}" if isinstance(parsing, cfg.ParseError) else ""
        return f"Failed to parse {error.config_file}{line}"
    return str(error)


def _problems(values: Mapping[str, Any], group: str = "DEFAULT") -> Iterator[str]:
    for name in values:
        try:
            value = values[name]
        except (cfg.NoSuchOptError, cfg.TemplateSubstitutionError):
            # its text names another option, or has the part of a password that follows a $
            yield f"[{group}]/{name}: {_UNKNOWN_REFERENCE}"
            continue
        except (ValueError, cfg.Error) as error:
            yield f"[{group}]/{name}: {plain_reason(str(error))}"
            continue
        if isinstance(value, cfg.ConfigOpts.GroupAttr):
            yield from _problems(value, name)
