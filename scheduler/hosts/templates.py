"""Cell database URLs that are written as templates of the local one (spec: host-state-and-cells 2.2)."""

from urllib.parse import urlsplit

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


def expand(text: str, reference: str | None, where: str) -> str:
    """The URL that ``text`` stands for, given the ``reference`` URL; ``text`` itself if that cannot be told.

    ``where`` names the cell for the log, which never shows the URL: it may hold a password.
    """
    if not reference:
        if "{" in text:
            LOG.error(
                "The database URL of cell %s is a template, but [database]/connection is not set.", where
            )
        return text
    try:
        return text.format(**names(reference))
    except (ValueError, LookupError, AttributeError, TypeError) as error:
        reason = (
            f"{type(error).__name__}: {error}" if isinstance(error, LookupError) else type(error).__name__
        )
        LOG.error("The database URL of cell %s cannot be formatted and is used as it is: %s", where, reason)
        return text


def names(reference: str) -> dict[str, object]:
    """What a template may name. Raises ``ValueError`` for a URL that cannot be taken apart."""
    url = urlsplit(reference)
    found = {
        "scheme": url.scheme,
        "username": url.username,
        "password": url.password,
        "hostname": url.hostname,
        "port": url.port,
        "path": url.path.lstrip("/"),
        "query": url.query,
        "fragment": url.fragment,
    }
    if "," in url.netloc:
        for number, server in enumerate(url.netloc.split(","), 1):
            found |= _numbered(number, server)
    return found


def _numbered(number: int, server: str) -> dict[str, object]:
    url = urlsplit(f"//{server}")
    return {
        f"username{number}": url.username or "",
        f"password{number}": url.password,
        f"hostname{number}": url.hostname,
        f"port{number}": url.port,
    }
