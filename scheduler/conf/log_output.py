"""Where log lines go: what the options, or the file of ``log_config_append``, do with Berth's loggers."""

from collections.abc import Iterator, Mapping
import configparser
import logging
from pathlib import Path
from typing import NamedTuple

from oslo_config import cfg

from scheduler.errors import ConfigError
from scheduler.logs import OneLineRecord
from scheduler.version import version

JOURNAL_HINT = "install the package systemd-python (pip install 'berth-scheduler[journal]')"

#: Berth's loggers are below this one, so that what is configured for nova's scheduler holds for Berth.
LOGGER = "nova.scheduler"

#: The loggers whose handlers get the lines, in the order in which logging looks for them; "" is the root.
_CHAIN = (LOGGER, "nova", "")

#: Classes of handlers whose arguments say where lines go; those of others may have passwords.
_SHOWN = ("FileHandler", "StreamHandler")


def set_up_logging(conf: cfg.ConfigOpts) -> None:
    """Send log records where the options say, each message on one line.

    Raises:
        ConfigError: A log option cannot be used: the file of log_config_append, the directory of log files,
            the journal without its package.
    """
    from oslo_log import log

    try:
        log.setup(conf, "berth", version())
    except (log.LogConfigError, OSError) as error:
        raise ConfigError(f"Logging cannot be set up: {error}") from error
    except RuntimeError as error:
        if not conf.use_journal:
            raise
        raise ConfigError(f"[DEFAULT]/use_journal: {error}; {JOURNAL_HINT}") from error
    logging.setLogRecordFactory(OneLineRecord)


class LogOutput(NamedTuple):
    """The lowest level of the lines that are written, and where to; no place: all lines are lost."""

    level: str
    places: tuple[str, ...]

    def __str__(self) -> str:
        return f"Lines of {self.level} and above go to {', '.join(self.places)}"


class _Handler(NamedTuple):
    level: int
    place: str


class _Logger(NamedTuple):
    level: int
    handlers: tuple[str, ...]
    propagates: bool


def log_output(conf: cfg.ConfigOpts) -> LogOutput | None:
    """Return where the lines of Berth go; None if the file of ``log_config_append`` cannot be read.

    The file is not applied, as its handlers would open, and make, the files of the log.
    """
    if conf.log_config_append:
        try:
            return _of_file(conf.log_config_append)
        except (OSError, UnicodeDecodeError, configparser.Error, KeyError, ValueError):
            return None  # the start and --check-config apply the file, and say what is wrong
    return LogOutput(_level_of_options(conf), tuple(_places(conf)))


# -- options ---------------------------------------------------------------------------------------------


def _places(conf: cfg.ConfigOpts) -> Iterator[str]:
    file = conf.log_file or (conf.log_dir and f"{conf.prog}.log")
    if file:
        yield str(Path(conf.log_dir or "", file))
    if conf.use_stderr:
        yield "standard error"
    if conf.use_journal:
        yield "the journal"
    if not (file or conf.use_stderr or conf.use_journal):
        yield "standard output"
    if conf.use_syslog:
        yield "syslog"


def _level_of_options(conf: cfg.ConfigOpts) -> str:
    levels = dict(pair.split("=", 1) for pair in conf.default_log_levels if "=" in pair)
    default = "DEBUG" if conf.debug else "INFO"
    return next((levels[name] for name in _CHAIN if name in levels), default)


# -- log_config_append -----------------------------------------------------------------------------------


def _of_file(path: str) -> LogOutput:
    parser = configparser.ConfigParser()
    with Path(path).open() as file:
        parser.read_file(file)
    loggers = dict(_loggers(parser))
    handlers = [_handler(parser, name) for name in _handlers_of_chain(loggers)]
    levels = (loggers[name].level for name in _CHAIN if name in loggers)
    level = next((level for level in levels if level), logging.WARNING)
    lowest = min((max(level, handler.level) for handler in handlers if handler.place), default=level)
    places = tuple(dict.fromkeys(handler.place for handler in handlers if handler.place))
    return LogOutput(logging.getLevelName(lowest), places)


def _loggers(parser: configparser.ConfigParser) -> Iterator[tuple[str, _Logger]]:
    for key in _names(parser["loggers"]["keys"]):
        section = parser[f"logger_{key}"]
        name = "" if key == "root" else section["qualname"]
        propagates = section.get("propagate", "1") != "0"
        yield name, _Logger(_level(section), _names(section["handlers"]), propagates)


def _handlers_of_chain(loggers: Mapping[str, _Logger]) -> Iterator[str]:
    for name in _CHAIN:
        if name in loggers:
            yield from loggers[name].handlers
            if not loggers[name].propagates:
                return


def _handler(parser: configparser.ConfigParser, name: str) -> _Handler:
    section = parser[f"handler_{name}"]
    kind = section["class"].rpartition(".")[2]
    if kind == "NullHandler":
        return _Handler(_level(section), "")
    arguments = f" {section.get('args', '')}".rstrip() if kind.endswith(_SHOWN) else ""
    return _Handler(_level(section), f"handler {name}: {kind}{arguments}")


def _level(section: Mapping[str, str]) -> int:
    return logging.getLevelNamesMapping()[section.get("level", "NOTSET")]


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for each in text.split(",") if (name := each.strip()))
