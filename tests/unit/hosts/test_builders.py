"""The builders that other tests rest on."""

from scheduler.hosts.request_instances import Needs
from tests.builders import OTHER_CELL, make_host, make_table, make_view, uuid_of


def test_a_view_has_its_hosts_in_order():
    view = make_view([make_host("h2").ram(10), make_host("h1").ram(-5, total=20)])
    assert [row.host for row in view.rows] == ["h2", "h1"]
    assert list(view.numbers("free_ram_mb")) == [10, -5]
    assert list(view.numbers("total_usable_ram_mb")) == [10, 20]


def test_hosts_share_an_aggregate_by_name():
    table = make_table([make_host("h1").az("a"), make_host("h2").az("a").aggregate("fast", ssd="true")])
    sets = [table.aggregates.of_host(host) for host in ("h1", "h2", "h3")]
    assert [found.availability_zone("nova") for found in sets] == ["a", "a", "nova"]
    assert [len(found) for found in sets] == [1, 2, 0]
    assert sets[1].raw("ssd") == {"true"}


def test_instances_are_where_they_were_put():
    view = make_view([make_host("h1").holding("i1", os_distro="linux"), make_host("h2")])
    view.load(Needs(frozenset({"i1", "i2"}), image_properties=True))
    assert list(view.count_instances(["i1", "i2"])) == [1, 0]
    assert view.image_properties() == [[{"os_distro": "linux"}], []]
    assert list(view.host(0).instances) == ["i1"]


def test_cells_and_candidates():
    view = make_view([make_host("h1").cell(OTHER_CELL).candidate("x", "y")], disabled_cells=[OTHER_CELL])
    assert list(view.coded("cell")) == [OTHER_CELL]
    assert view.candidates(0) == ["x", "y"]
    assert view.rows[0].uuid == uuid_of("h1")
