"""What commands show, as pages and as texts."""

from scheduler.operators.shown import page
from scheduler.operators.shown.origin import Origin
from tests.support.pages import Page

#: What a test's pages say of their origin.
ORIGIN = Origin("2026-01-02T03:04:05+00:00", "region one", "1.2", ("decision", "req-1"))


def html_of(shown):
    """The page of what is shown."""
    return page.render(shown, ORIGIN)


def page_of(shown):
    """The page of what is shown, parsed."""
    return Page(html_of(shown))
