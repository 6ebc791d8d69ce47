"""What the tests of all commands for operators have in common."""

import logging

import pytest


@pytest.fixture(autouse=True)
def log_handlers():
    """Take away the handlers that commands add: the standard error of a test is closed after it."""
    root = logging.getLogger()
    before = root.handlers[:]
    yield
    for handler in root.handlers[:]:
        if type(handler) is logging.StreamHandler and handler not in before:
            root.removeHandler(handler)
