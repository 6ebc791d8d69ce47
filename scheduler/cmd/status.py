"""berth-status: commands that tell an operator about a deployment.

Exit status of all commands: what the command documents, and 255 if it could not be run: a wrong argument,
options that cannot be read, or an error that was not expected.
"""

import argparse
import logging
import sys
import warnings

from cliff.app import App
from cliff.commandmanager import CommandManager
from oslo_config import cfg
from oslo_service import backend

NOT_RUN = 255

NAME = "berth-status"
DESCRIPTION = "Commands that tell an operator about a deployment."


class StatusApp(App):
    """The commands and the options that all of them have.

    Attributes:
        conf: the options of the scheduler's configuration files, once a command is run.
        completed: whether a command ran to its end, so that the exit status is the command's own.
    """

    NAME = NAME
    LOG = logging.getLogger(NAME)

    def __init__(self, commands: CommandManager, **streams) -> None:
        from scheduler.version import version

        super().__init__(DESCRIPTION, version(), commands, deferred_help=True, **streams)
        self.conf: cfg.ConfigOpts | None = None
        self.completed = False

    def build_option_parser(self, description, version, argparse_kwargs=None) -> argparse.ArgumentParser:
        """Return the parser of what comes before the command."""
        parser = super().build_option_parser(description, version, {"prog": NAME, **(argparse_kwargs or {})})
        parser.add_argument(
            "--config-file",
            action="append",
            metavar="FILE",
            default=[],
            help="A configuration file, as berth-scheduler takes it: nova.conf. Can be repeated.",
        )
        parser.add_argument(
            "--config-dir", action="append", metavar="DIRECTORY", default=[], help="More configuration files."
        )
        return parser

    def configure_logging(self) -> None:
        """Log to standard error; libraries prepare debug output, at some cost, only where it is shown."""
        super().configure_logging()
        logging.getLogger().setLevel(logging.DEBUG if self.options.verbose_level > 1 else logging.INFO)

    def prepare_to_run_command(self, cmd) -> None:
        """Read the configuration, unless the command is one of cliff's own."""
        from scheduler import conf as options

        if not getattr(cmd, "needs_conf", False):
            return
        argv = [f"--config-file={name}" for name in self.options.config_file]
        argv += [f"--config-dir={name}" for name in self.options.config_dir]
        self.conf = options.load(argv)

    def clean_up(self, cmd, result, err) -> None:
        """Note whether the command ran to its end."""
        self.completed = err is None

    def interact(self) -> None:
        """Show the help: there is no interactive mode."""
        self.parser.print_help(self.stdout)


def commands() -> CommandManager:
    """Return the commands of berth-status."""
    from scheduler.cmd.audit import AuditCommand
    from scheduler.cmd.upgrade_check import UpgradeCheckCommand

    manager = CommandManager()
    manager.add_command("audit", AuditCommand)
    manager.add_command("upgrade check", UpgradeCheckCommand)
    return manager


def main(argv: list[str] | None = None, **streams) -> int:
    """Run a command and return its exit status. ``argv`` is the command line without the program's name."""
    # A library imports eventlet where it finds it, though nothing here uses it
    warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
    # To be settled before anything imports oslo.messaging, which would choose eventlet
    backend.init_backend(backend.BackendType.THREADING)
    app = StatusApp(commands(), **streams)
    try:
        status = app.run(sys.argv[1:] if argv is None else argv)
    except SystemExit as stop:
        # argparse ends with 2 for a wrong argument, which means something else to our commands
        return NOT_RUN if stop.code else 0
    # cliff reports its own errors as 1 or 2, which mean something else to our commands
    return status if app.completed or status > 2 else NOT_RUN


if __name__ == "__main__":
    sys.exit(main())
