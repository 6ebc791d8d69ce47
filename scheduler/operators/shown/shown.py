"""The presentation of what a command found: head, pictures, tables, and the document behind them.

Texts are plain: the formats escape markup and control characters.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
import re
from typing import Any, NamedTuple, Self

from scheduler.logs import sanitize

# -- words and cells -------------------------------------------------------------------------------------


class Link(NamedTuple):
    """Words that lead to an address on a page; "": to the one that the page has for the words, if any."""

    words: str
    address: str = ""


class Folded(NamedTuple):
    """Words, and details that a page folds under a summary; texts have only words and summary."""

    words: "Words"
    summary: str
    details: Sequence["Words"]


class Emphasis(NamedTuple):
    """Words with a look, which is a class of the style sheet."""

    words: str
    look: str


class Joined(NamedTuple):
    """Words one after the other."""

    parts: Sequence["Words"]
    between: str = ", "


Words = str | int | float | Link | Folded | Emphasis | Joined | None


class Bar(NamedTuple):
    """Two widths from the left, in percent, the strong one over the pale one.

    Attributes:
        words: What it means, for readers that do not see it.
    """

    whole: float
    part: float
    words: str
    look: str = ""


class Counts(NamedTuple):
    """Numbers over time, those of ``part`` over those of ``whole``."""

    whole: Sequence[int]
    part: Sequence[int]
    words: str


#: What a cell has: words, several lines of them, or a picture, which only pages have.
Cell = Words | Bar | Counts | tuple[Words, ...]

#: Heading -> a key or attribute of each record, or what returns a cell of it.
Columns = dict[str, str | int | Callable[[Any], Cell]]


def some(names: Sequence["Words"], most: int) -> "Words":
    """Return the first of some names; the others are folded."""
    shown, others = Joined(names[:most]), names[most:]
    return Folded(shown, f"and {len(others)} more", others) if others else shown


def plain(cell: Any) -> Any:
    """Return a cell for a format without links and pictures: a number, or a text of lines."""
    if type(cell) is tuple:
        return tuple(str(plain(line)) for line in cell)
    if isinstance(cell, Link | Emphasis):
        return cell.words
    if isinstance(cell, Folded):
        return " ".join(filter(None, (str(plain(cell.words)), cell.summary)))
    if isinstance(cell, Joined):
        return cell.between.join(str(plain(part)) for part in cell.parts)
    return "" if cell is None or isinstance(cell, Bar | Counts) else cell


_NUMBER = re.compile("[-+]?[0-9,.]+(e[-+]?[0-9]+)?( %)?")

# -- parts -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Table:
    """Rows of cells.

    Attributes:
        title: The heading on a page.
        note: A sentence below the heading on a page.
        pictures: Columns that only pages have.
        legend: The colours of a picture: class and meaning.
        looks: Classes of rows, by number.
        anchors: Addresses of rows on the page, by number.
        anchor: The address of the table on the page.
        searched: Whether a page lets readers search and sort the rows.
        only_on_page: Whether texts leave it out.
        commands: Whether the commands in backticks of the last column are listed below the text.
        left_out: The number of further rows.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    note: str = ""
    pictures: Sequence[str] = ()
    legend: Sequence[tuple[str, str]] = ()
    looks: Mapping[int, str] = field(default_factory=dict)
    anchors: Mapping[int, str] = field(default_factory=dict)
    anchor: str = ""
    searched: bool = False
    only_on_page: bool = False
    commands: bool = False
    left_out: int = 0

    def texts(self) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Return the columns and rows of a text; control characters are escaped, lines are one text."""
        chosen = [at for at, name in enumerate(self.columns) if name not in self.pictures]
        rows = [tuple(_text(row[at]) for at in chosen) for row in self.rows]
        return tuple(self.columns[at] for at in chosen), rows

    def without_empty_columns(self) -> Self:
        """Return the table without the columns that are empty in each row."""
        kept = [at for at in range(len(self.columns)) if any(not _is_empty(row[at]) for row in self.rows)]
        if len(kept) == len(self.columns) or not self.rows:
            return self
        columns = [self.columns[at] for at in kept]
        return replace(self, columns=columns, rows=[[row[at] for at in kept] for row in self.rows])

    def is_drawn(self, column: str) -> bool:
        """Whether a column has bars, which need no name."""
        at = list(self.columns).index(column)
        return any(isinstance(row[at], Bar) for row in self.rows)

    def is_number(self, column: str) -> bool:
        """Whether a column has numbers, which are aligned."""
        at = list(self.columns).index(column)
        cells = [row[at] for row in self.rows if not _is_empty(row[at])]
        return bool(cells) and all(_NUMBER.fullmatch(str(plain(cell))) for cell in cells)


def table(rows: Iterable[Any], columns: Columns, title: str = "", **more: Any) -> Table:
    """Return a table of some records; None is an empty cell.

    Args:
        more: Further attributes of the table.
    """
    read = [column if callable(column) else _getter(column) for column in columns.values()]
    cells = [tuple("" if (cell := get(one)) is None else cell for get in read) for one in rows]
    return Table(tuple(columns), cells, title, **more)


def _getter(key: str | int) -> Callable[[Any], Cell]:
    """Return what reads a value of a record: an attribute of an object, an item of a mapping or a tuple."""
    if isinstance(key, int):
        return itemgetter(key)
    return lambda record: record[key] if isinstance(record, Mapping) else getattr(record, key)


def _text(cell: Cell) -> Any:
    found = plain(cell)
    if isinstance(found, tuple):
        return "\n".join(map(sanitize, found))
    return sanitize(found) if isinstance(found, str) else found


def _is_empty(cell: Cell) -> bool:
    return cell is None or cell in ("", ())


#: Bars of one picture.
MOST_BARS = 40


def bars(
    title: str,
    rows: Iterable[tuple[Words, float, float, str, str]],
    legend: Sequence[tuple[str, str]] = (),
    most: float = 0,
) -> Table:
    """Return a picture, which only pages have, of rows with label, the two values, words and look.

    Args:
        most: The value of the whole width; 0: the largest value.
    """
    rows = list(rows)
    most = most or max((max(whole, part) for _, whole, part, *_ in rows), default=0) or 1
    drawn = [
        (label, Bar(100 * whole / most, 100 * part / most, f"{plain(label)}: {words}", look), words)
        for label, whole, part, words, look in rows[:MOST_BARS]
    ]
    left = len(rows) - len(drawn)
    return Table(("", "", ""), drawn, title, legend=legend, left_out=left, only_on_page=True)


# -- head ------------------------------------------------------------------------------------------------


class Fact(NamedTuple):
    """A property of what is shown."""

    name: str
    words: Words


class Saying(NamedTuple):
    """A sentence on what was found.

    Attributes:
        title: What it says, such as ``Cause``; "" for the result.
        details: Further sentences: texts have the first of them, pages fold all.
    """

    words: str
    title: str = ""
    details: Sequence[str] = ()


GOOD, BAD = "good", "bad"


@dataclass(frozen=True)
class Head:
    """What comes first.

    Attributes:
        title: The heading of a page; texts do not have it.
        subject: What is shown; the first line of a text.
        look: ``GOOD``, ``BAD``, or "" where nothing is either.
        time: The time of what is shown; None: now.
        facts: Properties of the subject.
        sayings: What was found.
        home: The page that leads here.
        pages: The pages before and after this one.
    """

    title: str = ""
    subject: str = ""
    look: str = ""
    time: str | None = None
    facts: Sequence[Fact] = ()
    sayings: Sequence[Saying] = ()
    home: Link | None = None
    pages: Sequence[Link] = ()


#: Details of a sentence that texts have.
DETAILS = 5


def lines_of(head: Head) -> Iterator[str]:
    """Yield the lines of a head."""
    if head.subject:
        yield head.subject
    for name, words in head.facts:
        yield f"  {name} {plain(words)}" if name else f"  {plain(words)}"
    for words, title, details in head.sayings:
        yield f"{title}: {words}" if title else words
        yield from (f"  {each}" for each in details[:DETAILS])
        if (left := len(details) - DETAILS) > 0:
            yield f"  and {left} more"


@dataclass(frozen=True)
class Shown:
    """What a command shows.

    Attributes:
        document: All of it, for JSON and YAML: what msgspec encodes.
        head: What comes first.
        parts: Pictures and tables in the order of a page. The last table of texts is also that of CSV and of
            values.
        status: The exit status of the command.
    """

    document: Any
    head: Head = Head()
    parts: Sequence[Table] = ()
    status: int = 0

    @property
    def tables(self) -> list[Table]:
        """The tables of texts."""
        return [part for part in self.parts if not part.only_on_page]
