"""Tables fit a terminal without breaking names."""

from hypothesis import given
from hypothesis import strategies as st
import pytest

from scheduler.decisions import document
from scheduler.decisions.trace import Trace
from scheduler.operators.explain import decision as shown_decision
from scheduler.operators.shown.command import WIDTH, fitted
from scheduler.request.scheduling_request import SchedulingRequest
from tests.unit.filters.asking import make_spec

UUID = "6f970628-0de2-43df-af13-b920d0a830fa"
TABLE = (("Host", "Why"), [(UUID, "one two three four"), ("h2", "")])


def line_width(table):
    columns, rows = table
    lines = [
        [name, *(line for row in rows for line in row[at].split("\n"))] for at, name in enumerate(columns)
    ]
    return 1 + sum(3 + max(map(len, column)) for column in lines)


@pytest.mark.parametrize(
    ("width", "why"),
    [
        (100, "one two three four"),
        (60, "one two three\nfour"),
        (48, "one\ntwo\nthree\nfour"),
        (10, "one\ntwo\nthree\nfour"),
    ],
)
def test_sentences_are_wrapped_and_ids_stay_whole(width, why):
    assert fitted(TABLE, width) == (TABLE[0], [(UUID, why), ("h2", "")])
    assert (line_width(fitted(TABLE, width)) <= width) is (width >= 48)


def test_lines_of_a_cell_stay_lines():
    word = "w" * (WIDTH - 1)
    assert fitted((("a",), [(f"{word} two\nthree",), (7,)]), 0)[1] == [(f"{word}\ntwo\nthree",), (7,)]


@pytest.mark.parametrize(
    ("node", "shown"), [("cmp-1", False), ("cmp-1.example.net", False), ("baremetal-7", True)]
)
def test_nodes_are_shown_if_their_names_are_not_those_of_their_hosts(node, shown):
    hosts = document.Hosts(True, ["cmp-1"], [node], [0], [0], ["passed"], [-1], [-1], {0: "c"}, {0: "z"})
    request = SchedulingRequest.of(make_spec(instance_uuid="i"), ["i"])
    decision = Trace(request).decision
    decision.hosts = hosts
    columns, rows = shown_decision.hosts(decision, None).texts()
    assert ("Node" in columns) is shown
    assert (node in rows[0]) is (shown or node == "cmp-1")


words = st.text("abc ", max_size=30)


@given(st.lists(st.tuples(words, words), max_size=5), st.integers(10, 80))
def test_a_table_is_no_wider_than_asked_for_if_it_can_be_so(rows, width):
    table = (("First", "Second"), rows)
    found = fitted(table, width)
    narrowest = fitted(table, 1)
    assert line_width(found) <= max(width, line_width(narrowest))
    assert [[cell.split() for cell in row] for row in found[1]] == [
        [cell.split() for cell in row] for row in rows
    ]
