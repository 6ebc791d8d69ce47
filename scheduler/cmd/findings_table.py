"""Commands that show findings as a table, and say by their exit status what they have found."""

from abc import abstractmethod
import argparse
from collections.abc import Sequence
import sys
import textwrap

from cliff.lister import Lister
from oslo_config import cfg

#: Width of a column with sentences, in a table that is not fitted to a terminal.
WIDTH = 60

Row = tuple[str, ...]


class FindingsCommand(Lister):
    """The base of the commands of berth-status."""

    needs_conf = True
    columns: Row

    @abstractmethod
    def find(self, conf: cfg.ConfigOpts, args: argparse.Namespace) -> tuple[int, Sequence[Row]]:
        """Return the exit status, and a row for each finding."""

    def run(self, parsed_args: argparse.Namespace) -> int:
        """Find and show, and return the exit status."""
        self._status = 0
        super().run(parsed_args)
        return self._status

    def take_action(self, parsed_args: argparse.Namespace) -> tuple[Row, Sequence[Row]]:
        """Return the columns and the rows."""
        conf: cfg.ConfigOpts = getattr(self.app, "conf")  # noqa: B009 - of our application, not of every one
        self._status, rows = self.find(conf, parsed_args)
        fitted = parsed_args.max_width > 0 or parsed_args.fit_width or sys.stdout.isatty()
        if parsed_args.formatter == "table" and not fitted:
            return self.columns, [_wrapped(row) for row in rows]
        return self.columns, rows


def _wrapped(row: Row) -> Row:
    # words as they are: operators copy names, paths and commands from the table
    return tuple(
        "\n".join(textwrap.wrap(cell, WIDTH, break_long_words=False, break_on_hyphens=False)) for cell in row
    )
