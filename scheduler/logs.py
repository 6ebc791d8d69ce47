"""Log lines that would otherwise repeat with every request or every round of a background loop.

``OutageLog`` reports what fails and recovers. ``RateLimitedLogger`` logs one warning of a kind in an
interval. ``OneLineRecord`` bounds and cleans what users send.
"""

from collections.abc import Callable, Hashable
from functools import partialmethod
import logging
import re
import threading
import time
from typing import Any

from cachetools import LRUCache

Logger = logging.Logger | logging.LoggerAdapter[Any]

#: Seconds after which a failure that goes on is logged again.
REMINDER_INTERVAL = 300.0

#: Kinds of warnings that one RateLimitedLogger remembers; beyond that the least recent ones are forgotten.
MAX_KINDS = 100_000

#: Characters of a line of the log above debug level; hints and extra specs can be as long as a message.
LONGEST_LINE = 4000

#: What may be name and password in a URL. Libraries accept passwords in which "/", "@" and spaces are not
#: escaped; a port that a space follows is none. URLs with one slash are refused, and named by the error.
_CREDENTIALS = re.compile(
    r"(?:(?<=://)(?:(?:(?!://)\S)+|[^\s/@:]*:(?!\d+(?:[\s/,;]|$))(?:(?!://)[^@\n])+)"
    r"|(?<=\w:/)[^\s/@:]+:[^\s@]+)(?=@)"
)

#: The server of a web address whose path or query may have an "@".
_SERVER = re.compile(r"[^/?#@:]+(:\d+)?[/?#]")

#: Characters of an exception's text that are searched in a message, which may have cut it.
COMPARED = 100


class OutageLog:
    """Logs that something fails, and that it works again. Any thread may report.

    Of several things of one kind each has a key; only those that fail are remembered.
    """

    def __init__(
        self, log: Logger, failure: str, recovery: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Report to a logger.

        Args:
            failure: The text that is logged as an error, followed by the cause; with one ``%s`` for the key.
            recovery: The text that is logged as information after the first success, likewise.
        """
        self._log = log
        self._failure = failure
        self._recovery = recovery
        self._clock = clock
        self._lock = threading.Lock()
        self._due: dict[Hashable, dict[type, float]] = {}

    def report_failure(self, error: Exception, *key: Hashable) -> None:
        """Log a failure, unless one of its class was logged within ``REMINDER_INTERVAL`` seconds."""
        with self._lock:
            now, due = self._clock(), self._due.setdefault(key, {})
            if now < due.get(type(error), now):
                return
            due[type(error)] = now + REMINDER_INTERVAL
        self._log.error("%s: %s", _of_key(self._failure, key), brief(error))

    def report_success(self, *key: Hashable) -> None:
        """Log the recovery, if a failure was reported since the last success. Cheap otherwise."""
        if key not in self._due:
            return
        with self._lock:
            failed = self._due.pop(key, None)
        if failed:
            self._log.info("%s", _of_key(self._recovery, key))


def _of_key(text: str, key: tuple[Hashable, ...]) -> str:
    return text % key if key else text  # names in a text without a key may have any character


def count_text(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things, such as '1 host' or '2 hosts'.

    Args:
        plural: The noun, and what follows it, for any other number than one; "": the noun with an s.
    """
    return f"{number} {noun if number == 1 else plural or f'{noun}s'}"


def brief(error: BaseException) -> str:
    """Return the first line of an error's text; errors of databases append the statement and its values.

    Passwords in URLs are masked.
    """
    return mask_credentials(str(error).partition("\n")[0]) or type(error).__name__


class RateLimitedLogger:
    """Logs one line of a kind in ``interval`` seconds; the lines between are debug output."""

    def __init__(
        self,
        log: Logger,
        interval: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
        max_kinds: int = MAX_KINDS,
    ) -> None:
        self._log = log
        self._interval = interval
        self._clock = clock
        self._lock = threading.Lock()
        # Of each kind: when its next line is due, and how many were suppressed since the last one.
        self._kinds: LRUCache[Hashable, tuple[float, int]] = LRUCache(max_kinds)

    def _write(self, level: int, kind: Hashable, message: str, *arguments: object) -> None:
        """Log a line, or debug output if a line of this kind was logged within the interval.

        A line says how many of its kind were suppressed before it.
        """
        suppressed = self.admit(kind)
        if suppressed is None:
            self._log.debug(message, *arguments)
        elif suppressed:
            self._log.log(level, f"{message} (and {suppressed} more like this)", *arguments)
        else:
            self._log.log(level, message, *arguments)

    warning = partialmethod(_write, logging.WARNING)
    info = partialmethod(_write, logging.INFO)
    error = partialmethod(_write, logging.ERROR)

    def admit(self, kind: Hashable) -> int | None:
        """Decide whether a line of this kind is due, for a caller that logs it itself.

        Returns:
            How many lines of the kind were suppressed since the last one that was due. None if this one is
            not due; it is counted as suppressed.
        """
        now = self._clock()
        with self._lock:
            due, suppressed = self._kinds.get(kind, (now, 0))
            if now < due:
                self._kinds[kind] = due, suppressed + 1
                return None
            self._kinds[kind] = now + self._interval, 0
            return suppressed


class OneLineRecord(logging.LogRecord):
    """A log record that is one line of bounded length and says an error once.

    Line breaks and other control characters of the message are escaped, and credentials in URLs are masked,
    also in the traceback that may follow. Above debug level, a line is cut after ``LONGEST_LINE`` characters.

    Names, hints and keys come from users of the cloud: a line break in them must not begin a line of the log.
    Made by ``logging`` after ``logging.setLogRecordFactory(OneLineRecord)``.
    """

    def getMessage(self) -> str:  # noqa: N802 - the name is that of logging
        """Return the message with its arguments."""
        text = sanitize(super().getMessage())
        if len(text) > LONGEST_LINE and self.levelno > logging.DEBUG:
            text = f"{text[:LONGEST_LINE]} ... ({len(text) - LONGEST_LINE} more characters)"
        return text

    def __setattr__(self, name: str, value: Any) -> None:
        """Mask also the traceback, and escape the text of the exception that oslo.log appends.

        The latter is emptied if the message has the text.

        oslo.log appends the exception that is being handled to every warning and error, so that a message
        that names the cause itself would say it twice.
        """
        if name == "error_summary":
            value = sanitize(value)
            value = "" if _repeats(self.getMessage(), value) else value
        elif name == "exc_text" and value:
            value = mask_credentials(value)
        super().__setattr__(name, value)


def _repeats(message: str, summary: str) -> bool:
    """Return whether a message has the text of an exception, given as ``Class: text``."""
    text = summary.partition(": ")[2]
    return bool(text) and text[:COMPARED] in message


def mask_credentials(text: str) -> str:
    """Return a text with name and password of each URL masked. In doubt, more is masked."""
    return _CREDENTIALS.sub(_masked, text) if ":/" in text else text


def _masked(found: re.Match[str]) -> str:
    scheme = found.string[max(0, found.start() - len("https://")) : found.start()]
    if scheme.endswith(("http://", "https://")) and _SERVER.match(found[0]):
        return found[0]
    return "***"


def sanitize(text: str) -> str:
    """Return a text with credentials in URLs masked, and unprintable characters as in a string literal."""
    text = mask_credentials(text)
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text
    )
