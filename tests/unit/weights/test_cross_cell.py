import pytest

from scheduler.objects import CellMapping, Destination
from scheduler.weights.affinity import CrossCellWeigher
from tests.builders import CELL, OTHER_CELL, make_host
from tests.unit.weights.weighing import make_request, totals


def destination(cell=CELL, allowed=True):
    cell = cell and CellMapping(uuid=cell)
    return Destination(cell=cell, allow_cross_cell_move=allowed)


# spec: filters-and-weighers 3.9
@pytest.mark.parametrize(
    ("wanted", "options", "expected"),
    [
        (destination(), {}, [1000000.0, 0, 1000000.0]),
        (destination(allowed=False), {}, [0, 0, 0]),
        (destination(cell=None), {}, [0, 0, 0]),
        (Destination(host="h1"), {}, [0, 0, 0]),
        (None, {}, [0, 0, 0]),
        (destination(), {"cross_cell_move_weight_multiplier": -1000.0}, [-1000.0, 0, -1000.0]),
    ],
)
def test_the_preferred_cell_wins_where_moves_may_cross(wanted, options, expected):
    hosts = [make_host("h1"), make_host("h2").cell(OTHER_CELL), make_host("h3")]
    found = totals([CrossCellWeigher], hosts, make_request(requested_destination=wanted), **options)
    assert list(found.values()) == expected


def test_all_in_one_cell_are_equal():
    hosts = [make_host("h1"), make_host("h2")]
    found = totals([CrossCellWeigher], hosts, make_request(requested_destination=destination()))
    assert list(found.values()) == [0, 0]
