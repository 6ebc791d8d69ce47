"""Arguments that several commands have, and their types. argparse shows the text of their errors."""

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
import re
import sys
from typing import Any

from scheduler.decisions.document import seconds_of
from scheduler.errors import BerthError

_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class NotShown(BerthError):
    """A page or file cannot be written."""


@contextmanager
def writing(problem: str) -> Iterator[None]:
    """Report a failed write.

    Raises:
        NotShown: Something cannot be written; its text begins with ``problem``.
    """
    try:
        yield
    except OSError as error:
        raise NotShown(f"{problem}: {error}") from error


def _number(kind: Callable[[str], Any], least: float, words: str) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            value = kind(text)
        except ValueError:
            value = None
        if value is None or not value >= least:
            raise argparse.ArgumentTypeError(f"{text!r} is not {words}")
        return value

    return read


whole_number = _number(int, 0, "a whole number of 0 or more")
positive_integer = _number(int, 1, "a whole number of 1 or more")
positive_number = _number(float, sys.float_info.min, "a number above 0")
seconds = _number(float, 0, "a number of 0 or more")


def since(words: str) -> float:
    """Return the seconds since the epoch of an age such as ``15m``, or of a time in ISO format, in UTC."""
    age = _AGE.fullmatch(words)
    if age:
        return (datetime.now(UTC) - timedelta(seconds=float(age[1]) * _SECONDS[age[2]])).timestamp()
    try:
        return seconds_of(words)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{words!r} is neither an age such as 15m nor a time such as 2026-01-31T12:00"
        ) from error


def add_number(
    parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup,
    name: str,
    default: float,
    words: str,
    kind: Callable[[str], Any] = positive_integer,
) -> None:
    """Add an argument that is a number, with its default in the help."""
    words = f"{words} (default: {default:g})"
    parser.add_argument(name, type=kind, default=default, metavar="N", help=words)


def add_since(parser: argparse.ArgumentParser, default: float | str | None) -> None:
    """Add an argument that restricts a command to the latest requests.

    Args:
        default: Shown in the help if it is a text.
    """
    shown = f" (default: {default})" if isinstance(default, str) else ""
    words = f"only requests since this time in UTC, or of at most this age, such as 90s, 15m or 2h{shown}"
    parser.add_argument("--since", type=since, default=default, metavar="TIME", help=words)
