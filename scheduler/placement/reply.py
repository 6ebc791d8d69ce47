"""A response of Placement, or of a proxy in front of it: nothing about its body is taken for granted."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any

import orjson

#: Characters of a body or of an error's text that go into log lines.
LONGEST_TEXT = 2000

#: Bytes of a body that is looked into for an error, for each claim. Those of Placement are far shorter.
LARGEST_ERROR = 1 << 20

#: What the detail of each 400 begins with.
MALFORMED = (
    "The server could not comply with the request since it is either malformed or otherwise incorrect."
)


@dataclass(frozen=True, slots=True)
class Reply:
    """Status and body. An error of Placement has a ``code`` and a ``detail``; both are empty otherwise.

    Attributes:
        status: The HTTP status.
        body: The body as it came.
        headers: Its headers; ``Date`` and ``Last-Modified`` are used.
    """

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def unchanged_for(self) -> float:
        """The whole seconds since the last change of what it shows, by the server's clock; 0 if unknown."""
        try:
            now, changed = (parsedate_to_datetime(self.headers[name]) for name in ("Date", "Last-Modified"))
            return (now - changed).total_seconds()
        except (KeyError, TypeError, ValueError):  # TypeError: only one of them has a time zone
            return 0.0

    @property
    def data(self) -> dict[str, Any]:
        """The body if it is a JSON object, else an empty one."""
        try:
            data = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {}
        return data if isinstance(data, dict) else {}

    @property
    def text(self) -> str:
        """The first 2000 characters of the body, for log lines."""
        return self.body[:LONGEST_TEXT].decode("utf-8", "replace").strip()

    @property
    def error(self) -> dict[str, Any]:
        """The first error of an error body, else an empty dict."""
        errors = self.data.get("errors") if len(self.body) <= LARGEST_ERROR else None
        first = errors[0] if isinstance(errors, list) and errors else None
        return first if isinstance(first, dict) else {}

    @property
    def code(self) -> str:
        """The error code, such as ``placement.concurrent_update``."""
        return str(self.error.get("code") or "")

    @property
    def detail(self) -> str:
        """The text of the error on one line, at most 2000 characters of it."""
        return " ".join(str(self.error.get("detail") or "")[:LONGEST_TEXT].split())

    @property
    def rejection(self) -> str:
        """What Placement finds wrong with the request itself (400), on one line; empty if it says nothing."""
        return self.detail.removeprefix(MALFORMED).strip() if self.status == 400 else ""

    @property
    def summary(self) -> str:
        """Status and reason, for log lines and errors."""
        return f"Placement answers {self.status}: {self.detail or self.text}"
