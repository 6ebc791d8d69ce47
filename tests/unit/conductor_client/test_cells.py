import pytest
import sqlalchemy as sa

from conductor_client import cells
from scheduler.nova_db import schema

REFERENCE = "rabbit://nova:s3%2Fcret@Broker:5673/nova?ssl=1"


@pytest.fixture
def engine():
    made = sa.create_engine("sqlite://", poolclass=sa.StaticPool)
    schema.API.create_all(made)
    with made.begin() as connection:
        rows = [
            {"id": 1, "uuid": "u1", "name": "cell1", "transport_url": "{scheme}://{hostname}:{port}/cell1"},
            {"id": 2, "uuid": "u2", "name": None, "transport_url": "rabbit://other//"},
        ]
        connection.execute(sa.insert(schema.cell_mappings), rows)
        hosts = [{"cell_id": 1, "host": "a"}, {"cell_id": 2, "host": "b"}]
        connection.execute(sa.insert(schema.host_mappings), hosts)
    yield made
    made.dispose()


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("a", cells.Cell("u1", "cell1", "rabbit://broker:5673/cell1")),
        ("b", cells.Cell("u2", "u2", "rabbit://other//")),
        ("c", None),
    ],
)
def test_cell_of_a_host(engine, host, expected):
    assert cells.CellMap(engine, REFERENCE).of_host(host) == expected


@pytest.mark.parametrize(
    ("template", "expanded"),
    [
        (
            "{scheme}://{username}:{password}@{hostname}:{port}/{path}-1?{query}",
            REFERENCE.lower().replace("/nova?", "/nova-1?").replace("%2f", "%2F"),
        ),
        ("rabbit://plain/", "rabbit://plain/"),
        ("rabbit://pass{word@x/", "rabbit://pass{word@x/"),
        ("{unknown}", "{unknown}"),
    ],
)
def test_templates(template, expanded):
    assert cells.expand(template, REFERENCE) == expanded


def test_passwords_stay_out_of_logs():
    assert "secret" not in repr(cells.Cell("u", "n", "rabbit://x:secret@y/"))
