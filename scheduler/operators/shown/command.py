"""The base of commands that show something: here it becomes text, JSON, YAML, CSV, values or a page."""

import argparse
from collections.abc import Iterator, Sequence
from functools import cached_property
import re
import shutil
import sys
import textwrap
from typing import Any

from cliff.lister import Lister
import msgspec

from scheduler.logs import sanitize
from scheduler.operators.app import ConfiguredCommand, writing
from scheduler.operators.shown import files, page
from scheduler.operators.shown.files import Origin, origin
from scheduler.operators.shown.shown import Shown, Table, lines_of

#: Columns and rows, without links and pictures.
Plain = tuple[tuple[str, ...], list[tuple[Any, ...]]]

#: Of a line: the border, and of each cell its border and two spaces.
BORDER, PADDING = 1, 3

#: More characters than a line of any table has.
UNLIMITED = 1_000_000

#: The exit status of a command that has nothing to show, or could not write its page.
UNKNOWN = 1

#: The width of a column with sentences, in a table that is not fitted to a terminal.
WIDTH = 70

#: A command for an operator, in the last column of a row.
_COMMAND = re.compile("`([^`]+)`")

_DOCUMENTS = ("json", "yaml")


class ShownCommand(ConfiguredCommand, Lister):
    """Shows what ``show`` returns in the format that the arguments name."""

    #: Whether --html takes a file; otherwise the command has its own pages.
    has_page = True

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        return self._with_page(super().get_parser(prog_name))

    def _with_page(self, parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
        if self.has_page:
            parser.add_argument("--html", metavar="FILE", help="write an HTML page to this file")
        return parser

    def show(self, args: argparse.Namespace) -> Shown | None:
        """Return what to show; None if there is nothing, which was logged."""
        raise NotImplementedError

    def take_action(self, parsed_args: argparse.Namespace) -> Any:
        raise NotImplementedError

    def run(self, parsed_args: argparse.Namespace) -> int:
        file = parsed_args.html if self.has_page else None
        if file:
            with writing(f"Cannot write {file}"):  # before a run changes the cloud
                files.checked(file)
        shown = self.show(parsed_args)
        if shown is None:
            return UNKNOWN
        self.emit(shown, parsed_args)
        try:
            if file:
                files.write(file, page.render(shown, self.origin(shown)))
        except OSError as error:
            self.app.stderr.write(f"Cannot write {file}: {sanitize(str(error))}\n")
            return shown.status or UNKNOWN
        return shown.status

    def origin(self, shown: Shown) -> Origin:
        """Return where something comes from; the command is named without the words on its output."""
        return self._origin._replace(time=shown.head.time) if shown.head.time else self._origin

    @cached_property
    def _origin(self) -> Origin:
        """The origin of what is as of now, which is one moment for all that a run of the command shows."""
        of_output = self._with_page(super(ConfiguredCommand, self).get_parser(""))
        # an abbreviation of an option on the output may be an option of the command
        of_output.allow_abbrev = False
        _, words = of_output.parse_known_args(self.command_line)
        return origin(self.conf, tuple(words))

    def emit(self, shown: Shown, args: argparse.Namespace) -> None:
        if args.formatter in _DOCUMENTS:  # which escape control characters themselves
            self._print_document(shown, args)
        elif args.formatter == "table":
            self._print_text(shown, args)
        else:
            table = shown.tables[-1]
            columns, rows = table.texts()
            if table.commands:
                rows = [(*row[:-1], row[-1].replace("`", "")) for row in rows]
            self._emit((columns, rows), args)

    def _print_text(self, shown: Shown, args: argparse.Namespace) -> None:
        for line in lines_of(shown.head):
            self._line(line)
        commands: list[str] = []
        tables = [self._texts(table, args, commands) for table in shown.tables]
        width = table_width(args)
        if args.columns and tables:
            tables[-1] = _chosen(tables[-1], args.columns)
        # The formatter itself would break words
        emitted = argparse.Namespace(**{**vars(args), "max_width": UNLIMITED})
        for number, table in enumerate(tables, 1):
            if table[1]:
                self._emit(fitted(table, width), emitted, chosen=number == len(tables))
        for number, command in enumerate(commands, 1):
            self._line(f"{command}  # {number}")
        self._line(str(self.origin(shown)))

    def _line(self, line: str) -> None:
        """Print a line; users choose names and traits, with escape sequences perhaps."""
        self.app.stdout.write(f"{sanitize(line)}\n")

    @staticmethod
    def _texts(table: Table, args: argparse.Namespace, commands: list[str]) -> Plain:
        """Return a table as texts. Its commands are added to those that are listed below."""
        if not args.columns:
            table = table.without_empty_columns()
        columns, rows = table.texts()
        # a column that is not chosen has no commands to list
        if table.commands and (
            not args.columns or _normalized(columns[-1]) in map(_normalized, args.columns)
        ):
            rows = [(*row[:-1], "".join(_numbered(row[-1], commands))) for row in rows]
        if table.left_out and rows:
            rows.append((f"{table.left_out} more", *[""] * (len(columns) - 1)))
        return columns, rows

    def _print_document(self, shown: Shown, args: argparse.Namespace) -> None:
        document = msgspec.json.decode(msgspec.json.encode(shown.document))
        if isinstance(document, dict):
            document = document | {"origin": self.origin(shown).values()}
            self._emitter(args).emit_one(tuple(document), tuple(document.values()), self.app.stdout, args)
            return
        # schedulers of several releases may answer
        columns = tuple(dict.fromkeys(key for one in document for key in one))
        rows = [tuple(map(one.get, columns)) for one in document]
        columns, rows = _chosen((columns, rows), args.columns)
        self._emitter(args).emit_list(columns, rows, self.app.stdout, args)

    def _emitter(self, args: argparse.Namespace) -> Any:
        # some formatters are made for lists, others for single documents as well
        return self._formatter_plugins[args.formatter].obj

    def _emit(self, table: Plain, args: argparse.Namespace, *, chosen: bool = True) -> None:
        """Print a table; if it is the one to choose from, with the columns and the order of the arguments."""
        columns, rows = table
        if chosen:
            self.formatter = self._emitter(args)
            self.produce_output(args, columns, rows)
        else:
            self._emitter(args).emit_list(columns, rows, self.app.stdout, args)


def _chosen(table: Plain, names: Sequence[str]) -> Plain:
    """Return the columns of a table that have one of these names, as cliff reads them; all if none has."""
    columns, rows = table
    wanted = {_normalized(name) for name in names}
    found = [at for at, name in enumerate(columns) if _normalized(name) in wanted] or range(len(columns))
    return tuple(columns[at] for at in found), [tuple(row[at] for at in found) for row in rows]


def _normalized(name: str) -> str:
    return name.lower().strip().replace(" ", "_")


def _numbered(text: str, commands: list[str]) -> Iterator[str]:
    """Yield a text in which commands in backticks are their numbers in the list of commands."""
    for number, part in enumerate(_COMMAND.split(text)):
        if number % 2 and part not in commands:
            commands.append(part)
        yield f"command {commands.index(part) + 1}" if number % 2 else part


# -- tables that fit a terminal ---------------------------------------------------------------------------


def table_width(args: argparse.Namespace) -> int:
    """Return the characters that a line of a table may have; 0: any number."""
    if args.max_width > 0:
        return int(args.max_width)
    if args.fit_width or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return 0


def records(table: Table) -> list[dict[str, Any]]:
    """Return a document for each row; commands have no backticks."""
    columns, rows = table.texts()
    texts = ([cell.replace("`", "") if isinstance(cell, str) else cell for cell in row] for row in rows)
    return [dict(zip(columns, row, strict=True)) for row in texts]


def fitted(table: Plain, width: int) -> Plain:
    """Return a table with its cells wrapped to fit a width, as far as that breaks no word; 0: any width."""
    columns, rows = table
    widths = _widths(table, width) if width else [WIDTH] * len(columns)
    return columns, [
        tuple(_wrapped(cell, most) for cell, most in zip(row, widths, strict=True)) for row in rows
    ]


def _widths(table: Plain, width: int) -> list[int]:
    """Return the width of each column: the widest ones are made narrower until the line fits."""
    columns, rows = table
    cells = [[name, *(str(row[at]) for row in rows)] for at, name in enumerate(columns)]
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in cells]
    least = [
        max(len(column[0]), *(len(word) for cell in column for word in cell.split()), 1) for column in cells
    ]
    while BORDER + sum(PADDING + each for each in widths) > width:
        at = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        if widths[at] <= least[at]:
            break
        widths[at] -= 1
    return widths


def _wrapped(cell: Any, width: int) -> Any:
    if not isinstance(cell, str):
        return cell
    lines = (
        textwrap.wrap(line, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]
        for line in cell.split("\n")
    )
    return "\n".join(part for parts in lines for part in parts)
