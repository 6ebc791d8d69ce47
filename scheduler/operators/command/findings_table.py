"""Commands that show findings as a table; their exit status says what was found."""

from abc import abstractmethod
import argparse
from collections.abc import Sequence
import re

from cliff.lister import Lister
from oslo_config import cfg

from scheduler.logs import sanitize
from scheduler.operators.command.app import ConfiguredCommand
from scheduler.operators.command.tables import UNLIMITED, fitted, table_width, wrapped_cells

#: Width of a column with sentences, in a table that is not fitted to a terminal.
WIDTH = 60

#: A command for an operator, in the last column of a row.
_COMMAND = re.compile("`([^`]+)`")

Row = tuple[str, ...]


class FindingsCommand(ConfiguredCommand, Lister):
    """The base of the commands of berth-status.

    A table shows names and ids whole, and below it the commands to copy, a line each.
    """

    columns: Row

    @abstractmethod
    def find(self, conf: cfg.ConfigOpts, args: argparse.Namespace) -> tuple[int, Sequence[Row]]:
        """Return the exit status, and a row for each finding; its last column has commands in backticks."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        self._status = 0
        self._commands: list[str] = []
        super().run(parsed_args)
        for number, command in enumerate(self._commands, 1):
            self.app.stdout.write(f"{command}  # {number}\n")
        return self._status

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Sequence[Row]]:
        self._status, found = self.find(self.conf, parsed_args)
        rows = [tuple(map(sanitize, row)) for row in found]
        if parsed_args.formatter != "table":
            return self.columns, [(*row[:-1], row[-1].replace("`", "")) for row in rows]
        rows = [(*row[:-1], _COMMAND.sub(self._numbered, row[-1])) for row in rows]
        width = table_width(parsed_args)
        # The formatter itself would break words
        parsed_args.max_width = UNLIMITED
        shown = [at for at, name in enumerate(self.columns) if name in (parsed_args.columns or self.columns)]
        table = tuple(self.columns[at] for at in shown), [tuple(row[at] for at in shown) for row in rows]
        return fitted(table, width) if width else wrapped_cells(table, WIDTH)

    def _numbered(self, found: re.Match[str]) -> str:
        if found[1] not in self._commands:
            self._commands.append(found[1])
        return f"command {self._commands.index(found[1]) + 1}"
