"""What commands show, as pages and as texts."""

from scheduler.operators.shown import page
from scheduler.operators.shown.files import Origin

#: What a test's pages say of their origin.
ORIGIN = Origin("2026-01-02T03:04:05+00:00", "region one", "1.2", ("decision", "req-1"))


def html_of(shown, addresses=None):
    """The page of what is shown."""
    return page.render(shown, ORIGIN, addresses)
