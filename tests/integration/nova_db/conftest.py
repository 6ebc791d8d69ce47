import contextlib

import pytest

from tests.support.nova_databases import NovaDatabases


@pytest.fixture
def nova(make_database):
    """nova's databases on each kind of server in turn."""
    with contextlib.closing(NovaDatabases(make_database)) as databases:
        yield databases
        databases.empty()
