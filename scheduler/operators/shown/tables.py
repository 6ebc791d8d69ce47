"""Tables that fit a terminal: sentences are wrapped between words, and names and ids stay whole."""

import argparse
from collections.abc import Sequence
import shutil
import sys
import textwrap
from typing import Any

from scheduler.logs import sanitize
from scheduler.operators.shown.shown import Table

#: Columns and rows, without links and pictures.
Plain = tuple[tuple[str, ...], list[tuple[Any, ...]]]

#: Of a line: the border, and of each cell its border and two spaces.
BORDER, PADDING = 1, 3

#: More characters than a line of any table has.
UNLIMITED = 1_000_000


def table_width(args: argparse.Namespace) -> int:
    """Return the characters that a line of a table may have; 0: any number."""
    if args.max_width > 0:
        return int(args.max_width)
    if args.fit_width or sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    return 0


def printable(table: Plain) -> Plain:
    """Return a table in which control characters are escaped, and cells of several lines are one text."""
    columns, rows = table
    return columns, [tuple(_printable(cell) for cell in row) for row in rows]


def _printable(cell: Any) -> Any:
    if isinstance(cell, tuple):
        return "\n".join(map(sanitize, cell))
    return sanitize(cell) if isinstance(cell, str) else cell


def records(table: Table) -> list[dict[str, Any]]:
    """Return a document for each row; commands have no backticks."""
    columns, rows = printable(table.without_pictures())
    texts = ([cell.replace("`", "") if isinstance(cell, str) else cell for cell in row] for row in rows)
    return [dict(zip(columns, row, strict=True)) for row in texts]


def fitted(table: Plain, width: int) -> Plain:
    """Return a table with its cells wrapped to fit a width, as far as that breaks no word."""
    columns, rows = table
    widths = _widths(table, width)
    wrapped = [tuple(_wrapped(cell, most) for cell, most in zip(row, widths, strict=True)) for row in rows]
    return columns, wrapped


def wrapped_cells(table: Plain, width: int) -> Plain:
    """Return a table in which no cell is wider than this, if it has no longer word."""
    columns, rows = table
    return columns, [tuple(_wrapped(cell, width) for cell in row) for row in rows]


def _widths(table: Plain, width: int) -> list[int]:
    """Return the width of each column: the widest ones are made narrower until the line fits."""
    columns, rows = table
    cells = [[name, *(str(row[at]) for row in rows)] for at, name in enumerate(columns)]
    widths = [max(len(line) for cell in column for line in cell.split("\n")) for column in cells]
    least = [
        max(len(column[0]), *(len(word) for cell in column for word in cell.split()), 1) for column in cells
    ]
    while _line(widths) > width:
        at = max(range(len(widths)), key=lambda at: (widths[at] > least[at], widths[at]))
        if widths[at] <= least[at]:
            break
        widths[at] -= 1
    return widths


def _line(widths: Sequence[int]) -> int:
    return BORDER + sum(PADDING + width for width in widths)


def _wrapped(cell: Any, width: int) -> Any:
    if not isinstance(cell, str):
        return cell
    lines = (
        textwrap.wrap(line, max(width, 1), break_long_words=False, break_on_hyphens=False) or [""]
        for line in cell.split("\n")
    )
    return "\n".join(part for parts in lines for part in parts)
