import contextlib

import pytest

from tests.support.nova_databases import NovaDatabases


@pytest.fixture
def nova(tmp_path):
    """nova's databases as SQLite files."""
    with contextlib.closing(NovaDatabases(lambda name: f"sqlite:///{tmp_path}/{name}.db")) as databases:
        yield databases
