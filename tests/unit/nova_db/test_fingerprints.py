from hypothesis import given
from hypothesis import strategies as st
import pytest
import sqlalchemy as sa

from scheduler.nova_db.fingerprints import COLUMN, ROW, Fingerprints, TruncatedText, read_texts

TABLE = sa.Table(
    "t",
    sa.MetaData(),
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String(255)),
    sa.Column("live", sa.Integer),
)


@pytest.fixture
def connection():
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        TABLE.create(connection)
        yield connection
    engine.dispose()


def write(connection, rows):
    connection.execute(sa.delete(TABLE))
    if rows:
        connection.execute(
            sa.insert(TABLE), [{"id": number, "name": name, "live": 1} for number, name in rows.items()]
        )


def poll(fingerprints, connection):
    return fingerprints.compare(fingerprints.read(connection))


@pytest.fixture
def fingerprints():
    return Fingerprints(TABLE, ["name"], [TABLE.c.live == 1])


def test_changes_are_told_until_they_are_accepted(connection, fingerprints):
    write(connection, {1: "a", 2: None})
    for _ in range(2):
        changes = poll(fingerprints, connection)
        assert (changes.changed, changes.gone, changes.row_count) == ({1, 2}, set(), 2)
    fingerprints.accept()
    assert not poll(fingerprints, connection)


def test_only_live_rows(connection, fingerprints):
    write(connection, {1: "a", 2: "b"})
    poll(fingerprints, connection)
    fingerprints.accept()
    connection.execute(sa.update(TABLE).where(TABLE.c.id == 1).values(live=0))
    assert poll(fingerprints, connection).gone == {1}


@pytest.mark.parametrize("name", [f"a{ROW}b", f"{COLUMN}", f"a{COLUMN}", "a\nb", "é|'\"%"])
def test_odd_names(connection, fingerprints, name):
    write(connection, {1: name, 2: "x"})
    assert poll(fingerprints, connection).changed == {1, 2}
    fingerprints.accept()
    write(connection, {1: f"{name} ", 2: "x"})
    assert poll(fingerprints, connection).changed == {1}
    cleaned = name.replace(ROW, " ").replace(COLUMN, " ")
    assert read_texts(connection, TABLE, ["name", "live"], []) == {1: [f"{cleaned} ", "1"], 2: ["x", "1"]}


def test_texts_of_some_rows(connection):
    write(connection, {1: "a", 2: None, 3: "c"})
    live = [TABLE.c.name != "c"]
    assert read_texts(connection, TABLE, ["name"], []) == {1: ["a"], 2: [""], 3: ["c"]}
    assert read_texts(connection, TABLE, ["name"], live, [1, 3, 7]) == {1: ["a"]}
    assert read_texts(connection, TABLE, ["name"], [], []) == {}


rows = st.dictionaries(st.integers(1, 200), st.sampled_from(["a", "b", None]), max_size=12)


@given(st.lists(rows, min_size=1, max_size=5))
def test_changes_lead_from_one_state_to_the_next(states):
    engine = sa.create_engine("sqlite://")
    fingerprints, known = Fingerprints(TABLE, ["name"], []), {}
    with engine.connect() as connection:
        TABLE.create(connection)
        for state in states:
            write(connection, state)
            changes = poll(fingerprints, connection)
            fingerprints.accept()
            for number in changes.gone:
                del known[number]
            assert all(known.get(number, "none") != state[number] for number in changes.changed)
            known |= {number: state[number] for number in changes.changed}
            assert known == state
            assert changes.row_count == len(state)
    engine.dispose()


@pytest.mark.parametrize("cut", [f"1{COLUMN}a{COLUMN}", f"1{COLUMN}a{COLUMN}{ROW}2{COLUMN}b", ""])
def test_a_text_that_was_cut(connection, fingerprints, monkeypatch, cut):
    """As by MySQL; SQLite returns texts whole, so its answer is replaced."""
    answer = sa.select(sa.literal(2), sa.literal(cut))
    monkeypatch.setattr(sa.Select, "where", lambda *_conditions: answer)
    with pytest.raises(TruncatedText):
        poll(fingerprints, connection)
    with pytest.raises(TruncatedText):
        read_texts(connection, TABLE, ["name"], [TABLE.c.live == 1])
