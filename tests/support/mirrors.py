"""Mirrors of Placement for tests."""

from scheduler.placement.mirror_source import CandidateMirror


def no_mirror():
    """A mirror that was never refreshed: Placement is asked for each request."""
    return CandidateMirror(None, lambda: 8.0)
