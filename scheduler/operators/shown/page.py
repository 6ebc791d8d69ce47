"""A page: one file that needs nothing else, readable without JavaScript and on a telephone."""

from base64 import b64encode
from collections.abc import Mapping
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
import re
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from scheduler.logs import sanitize
from scheduler.operators.shown.files import Origin
from scheduler.operators.shown.shown import Shown, plain

PACKAGE = "scheduler.operators.shown"

#: Rows of one table.
MOST_ROWS = 2000

#: Details of a sentence that are not folded.
OPEN = 3


def render(shown: Shown, origin: Origin, addresses: Mapping[str, str] | None = None) -> str:
    """Return what is shown as HTML.

    Args:
        addresses: Those of links that have only words.
    """
    parts = [part.without_empty_columns() for part in shown.parts]
    template = _environment().get_template("page.html")
    return template.render(head=shown.head, parts=parts, origin=origin, addresses=addresses or {})


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
        finalize=_sanitized,
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
    parts = (escape(sanitize(part)) for part in re.split("`([^`]+)`", text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else part for number, part in enumerate(parts)
    )


def _sanitized(value: Any) -> Any:
    """Return what names, hints and zones of users have in a form that also a terminal does not obey."""
    return sanitize(value) if type(value) is str else value
