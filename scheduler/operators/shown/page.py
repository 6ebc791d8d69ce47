"""A page: one file that needs nothing else, readable without JavaScript and on a telephone."""

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
import re
from typing import Any
import unicodedata

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from scheduler.operators.shown.files import Origin
from scheduler.operators.shown.shown import Shown, plain

PACKAGE = "scheduler.operators.shown"

#: Rows of one table.
MOST_ROWS = 2000

#: Details of a sentence that are not folded.
OPEN = 3


def render(shown: Shown, origin: Origin) -> str:
    """Return what is shown as HTML."""
    parts = [part.without_empty_columns() for part in shown.parts]
    searched = any(part.searched for part in parts)
    template = _environment().get_template("page.html")
    return template.render(head=shown.head, parts=parts, origin=origin, searched=searched)


@lru_cache
def policy() -> str:
    """Return the content security policy of all pages: this style sheet, this script, and nothing else."""
    return (
        f"default-src 'none'; style-src {_digest('style.css')}; script-src {_digest('table.js')}; "
        "base-uri 'none'; form-action 'none'"
    )


@lru_cache
def _part(name: str) -> str:
    return files(PACKAGE).joinpath("templates", name).read_text(encoding="utf-8")


def _digest(name: str) -> str:
    return f"'sha256-{b64encode(sha256(_part(name).encode()).digest()).decode()}'"


@lru_cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(PACKAGE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_without_control,
    )
    environment.filters.update(kind=_kind, plain=plain, number=_number, code=_code)
    environment.globals.update(
        policy=policy(),
        style=_part("style.css"),
        script=_part("table.js"),
        most_rows=MOST_ROWS,
        open_details=OPEN,
    )
    return environment


def _kind(value: Any) -> str:
    """Return the name of the macro that draws a cell."""
    return type(value).__name__.lower()


def _number(value: Any) -> str:
    """Return a cell of a column of numbers."""
    return f"{value:,}" if isinstance(value, int) else str(value)


def _code(text: str) -> Markup:
    """Return a text in which what is in backticks is code."""
    parts = (escape(_without_control(part)) for part in re.split("`([^`]+)`", text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )


def _without_control(value: Any) -> Any:
    """Return a value with the control characters of a text as in a string literal, but for line breaks.

    Names, hints and zones come from users of the cloud. A terminal would obey such characters.
    """
    if not isinstance(value, str) or value.isprintable():
        return value
    return type(value)("".join(map(_shown, value)))


def _shown(character: str) -> str:
    is_control = unicodedata.category(character) in {"Cc", "Cf", "Cs"} and character not in "\n\t"
    return character.encode("unicode_escape").decode("ascii") if is_control else character
