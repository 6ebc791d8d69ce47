"""What the tests against a real nova release share."""

import os

import pytest


@pytest.fixture(scope="session")
def nova_python():
    """The Python of an installed nova, named by BERTH_NOVA_PYTHON."""
    python = os.environ.get("BERTH_NOVA_PYTHON")
    if not python:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("BERTH_NOVA_PYTHON is not set")
    return python


@pytest.fixture(scope="session")
def nova_environment():
    """The environment in which nova's Python is run."""
    return {**os.environ, "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1", "PYTHONWARNINGS": "ignore"}
