"""Filling templates. A page may run and load only what the frame itself puts into it."""

from base64 import b64encode
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from typing import Any
import unicodedata

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from scheduler.logs import count_text

PACKAGE = "scheduler.operators.pages"


def render(package: str, template: str, /, **values: Any) -> str:
    """Return a page.

    Args:
        package: Has the template among its templates.
        template: The name of its file, which extends ``base.html``.
        values: What the template needs.
    """
    return _environment(package).get_template(template).render(values)


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
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(PACKAGE)]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_without_control,
    )
    environment.filters.update(upper_first=_upper_first, signed=_signed, count_text=count_text)
    environment.globals.update(policy=policy(), style=_part("style.css"), script=_part("table.js"))
    return environment


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


def _upper_first(text: str) -> str:
    return text[:1].upper() + text[1:]


def _signed(number: float) -> str:
    return f"{number:+.3g}".replace("-", "\N{MINUS SIGN}")
