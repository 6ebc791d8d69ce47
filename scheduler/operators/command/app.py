"""What all programs for operators have in common: an application with commands.

Exit status: what the command documents, and 255 if it could not be run: a wrong argument, unreadable options,
or an unexpected error.
"""

import argparse
from collections.abc import Mapping
import logging
from pkgutil import resolve_name
import sys
import warnings

from cliff.app import App
from cliff.command import Command
from cliff.commandmanager import CommandManager
from oslo_config import cfg
from oslo_service import backend

from scheduler.logs import OneLineRecord

NOT_RUN = 255

#: The words of a command -> the module in ``scheduler.cmd`` and the class.
Commands = Mapping[str, str]


class OperatorApp(App):
    """The commands and the options that all of them have.

    Attributes:
        conf: the options of the scheduler's configuration files, once a command is run.
        command_line: the words of the command that is run, and its arguments.
        completed: whether a command ran to its end, so that the exit status is the command's own.
    """

    def __init__(self, name: str, description: str, commands: Commands, **streams) -> None:
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


class ConfiguredCommand(Command):
    """The base of commands that read the configuration of the scheduler."""

    needs_conf = True

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
    commands: Commands,
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
