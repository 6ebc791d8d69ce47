"""What all programs for operators have in common: an application with commands, and types of arguments.

Exit status: what the command documents, and 255 if it could not be run: a wrong argument, unreadable options,
or an unexpected error.
"""

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
import logging
from pkgutil import resolve_name
import re
import sys
from typing import Any
import warnings

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager
from oslo_config import cfg
from oslo_service import backend

from scheduler.errors import BerthError
from scheduler.logs import OneLineRecord

NOT_RUN = 255


class OperatorApp(App):
    """The commands and the options that all of them have.

    Attributes:
        conf: the options of the scheduler's configuration files, once a command is run.
        command_line: the words of the command that is run, and its arguments.
        completed: whether a command ran to its end, so that the exit status is the command's own.
    """

    def __init__(self, name: str, description: str, commands: Mapping[str, str], **streams) -> None:
        from scheduler.version import version

        self.NAME = name
        self.LOG = logging.getLogger(name)
        manager = CommandManager()
        for words, command in commands.items():
            manager.add_command(words, resolve_name(f"scheduler.operators.{command}"))
        super().__init__(description, version(), manager, deferred_help=True, **streams)
        self.conf: cfg.ConfigOpts | None = None
        self.command_line: list[str] = []
        self.completed = False

    def run_subcommand(self, argv: list[str]) -> int:
        self.command_line = argv
        return super().run_subcommand(argv)

    def build_option_parser(self, description, version, argparse_kwargs=None) -> argparse.ArgumentParser:
        # an abbreviation of an option of cliff may be an option of a command
        arguments = {"prog": self.NAME, "allow_abbrev": False, **(argparse_kwargs or {})}
        parser = super().build_option_parser(description, version, arguments)
        parser.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            default=[],
            help="configuration file of the scheduler, such as /etc/nova/nova.conf; can be repeated",
        )
        parser.add_argument(
            "--config-dir",
            action="append",
            metavar="DIRECTORY",
            default=[],
            help="directory with more configuration files; can be repeated",
        )
        return parser

    def configure_logging(self) -> None:
        """Log to standard error; libraries prepare debug output, at some cost, only where it is shown."""
        super().configure_logging()
        # What is logged quotes answers of schedulers, which quote users
        logging.setLogRecordFactory(OneLineRecord)
        logging.getLogger().setLevel(logging.DEBUG if self.options.verbose_level > 1 else logging.INFO)

    def prepare_to_run_command(self, cmd) -> None:
        """Read the configuration, unless the command is one of cliff's own."""
        from scheduler import conf as options

        if not getattr(cmd, "needs_conf", False):
            return
        argv = [f"--config-file={name}" for name in self.options.config_file]
        argv += [f"--config-dir={name}" for name in self.options.config_dir]
        self.conf = options.load(argv)
        # With a queue manager, two commands of a host would share one reply queue
        self.conf.set_override("use_queue_manager", False, "oslo_messaging_rabbit")

    def clean_up(self, cmd, result, err) -> None:
        self.completed = err is None

    def interact(self) -> None:
        """Show the help: there is no interactive mode."""
        self.parser.print_help(self.stdout)


#: The name of an argument, and what argparse gets for it.
Argument = tuple[str, dict[str, Any]]
Arguments = tuple[Argument, ...]


class ConfiguredCommand(Command):
    """The base of commands that read the configuration of the scheduler.

    Attributes:
        arguments: What a command has besides the arguments of its base.
    """

    needs_conf = True
    arguments: Arguments = ()

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        for kind in reversed(type(self).__mro__):
            for name, options in vars(kind).get("arguments", ()):
                parser.add_argument(name, **options)
        return parser

    @property
    def conf(self) -> cfg.ConfigOpts:
        return getattr(self.app, "conf")  # noqa: B009 - of our application, not of every one

    @property
    def command_line(self) -> list[str]:
        """The words of the command and its arguments."""
        return getattr(self.app, "command_line")  # noqa: B009


def run(
    name: str,
    description: str,
    commands: Mapping[str, str],
    argv: list[str] | None = None,
    **streams,
) -> int:
    """Run a command and return its exit status. Its module is imported once threads are set up."""
    # futurist imports eventlet if it is installed; it is not used
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    # before oslo.messaging is imported, which would choose eventlet
    backend.init_backend(backend.BackendType.THREADING)
    app = OperatorApp(name, description, commands, **streams)
    try:
        status = app.run(sys.argv[1:] if argv is None else argv)
    except SystemExit as stop:
        # argparse ends with 2 for a wrong argument, which means something else to our commands
        return NOT_RUN if stop.code else 0
    # cliff reports its own errors as 1 or 2, which mean something else to our commands
    return status if app.completed or status > 2 else NOT_RUN


# -- arguments, whose errors argparse shows ----------------------------------------------------------------

_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class NotShown(BerthError):
    """A page or file cannot be written."""


@contextmanager
def writing(problem: str) -> Iterator[None]:
    """Report a failed write.

    Raises:
        NotShown: Something cannot be written; its text begins with ``problem``.
    """
    try:
        yield
    except OSError as error:
        raise NotShown(f"{problem}: {error}") from error


def _number(kind: Callable[[str], Any], least: float, words: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not value >= least:
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return read


whole_number = _number(int, 0, "a whole number of 0 or more")
positive_integer = _number(int, 1, "a whole number of 1 or more")
positive_number = _number(float, sys.float_info.min, "a number above 0")
seconds = _number(float, 0, "a number of 0 or more")


def since(words: str) -> float:
    """Return the seconds since the epoch of an age such as ``15m``, or of a time in ISO format, in UTC."""
    from scheduler.decisions.document import seconds_of

    age = _AGE.fullmatch(words)
    if age:
        return (datetime.now(UTC) - timedelta(seconds=float(age[1]) * _SECONDS[age[2]])).timestamp()
    try:
        return seconds_of(words)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{words!r} is neither an age such as 15m nor a time such as 2026-01-31T12:00"
        ) from error


#: What a text file is for.
AS_METRICS = "as metrics for the textfile collector of node-exporter"


def flag(name: str, words: str) -> Argument:
    return name, {"action": "store_true", "help": words}


def value(name: str, meta: str, words: str, **more: Any) -> Argument:
    return name, {"metavar": meta, "help": words, **more}


def values(name: str, meta: str, words: str, **more: Any) -> Argument:
    """Return an argument that can be repeated."""
    return value(name, meta, f"{words}; can be repeated", action="append", default=[], **more)


def count(name: str, default: float, words: str, kind: Callable[[str], Any] = positive_integer) -> Argument:
    return value(name, "N", f"{words} (default: {default:g})", type=kind, default=default)


def latest(default: float | str | None) -> Argument:
    """Return an argument that restricts a command to the latest requests; the help has a text as default."""
    shown = f" (default: {default})" if isinstance(default, str) else ""
    words = f"only requests since this time in UTC, or of at most this age, such as 90s, 15m or 2h{shown}"
    return value("--since", "TIME", words, type=since, default=default)
