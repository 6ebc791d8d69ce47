"""An answer of Placement, or of something in front of it: nothing about its body is taken for granted."""

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class Reply:
    """Status and body. An error of Placement has a ``code`` and a ``detail``; both are empty otherwise."""

    status: int
    body: bytes = b""

    @property
    def data(self) -> dict:
        """The body if it is a JSON object, else an empty one."""
        try:
            data = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            return {}
        return data if isinstance(data, dict) else {}

    @property
    def text(self) -> str:
        """The body for a log line: at most 2000 characters of it."""
        return self.body[:2000].decode("utf-8", "replace").strip()

    @property
    def error(self) -> dict:
        """The first error of an error body, else an empty dict."""
        errors = self.data.get("errors")
        first = errors[0] if isinstance(errors, list) and errors else None
        return first if isinstance(first, dict) else {}

    @property
    def code(self) -> str:
        """Such as ``placement.concurrent_update``."""
        return str(self.error.get("code") or "")

    @property
    def detail(self) -> str:
        """What the error says to a human, blanks and line breaks evened out."""
        return " ".join(str(self.error.get("detail") or "").split())

    @property
    def summary(self) -> str:
        """Status and reason, for whoever has to go without what was asked."""
        return f"Placement answers {self.status}: {self.detail or self.text}"
