"""Types of arguments that several commands have. argparse shows the text of their errors."""

import argparse
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
import re
import sys
from typing import Any

from scheduler.explain.document import seconds_of

_AGE = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


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
