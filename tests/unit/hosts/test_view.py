import numpy as np
import pytest

from scheduler.hosts.host_state import instances_held
from scheduler.hosts.request_instances import InstanceSource, Needs
from scheduler.hosts.view import HostView
from tests.builders import CELL, OTHER_CELL, Instances, make_host, make_table, make_view


def names(view):
    return [row.host for row in view.rows]


def three(**options):
    hosts = [make_host(f"h{number}").ram(1000 * number) for number in (1, 2, 3)]
    return make_view(hosts, **options)


def test_where_and_at():
    view = three()
    assert names(view.where(np.array([True, False, True]))) == ["h1", "h3"]
    assert view.where(np.ones(3, bool)) is view
    assert names(view.at([2, 0])) == ["h3", "h1"]
    part = view.at([2, 1]).where(np.array([False, True]))
    assert names(part) == ["h2"]
    assert len(part) == 1


def test_nothing_left():
    view = three().where(np.zeros(3, bool))
    assert len(view) == 0
    assert list(view.numbers("free_ram_mb")) == []
    assert list(view.coded("cell")) == []
    assert view.hosts() == []


def test_a_view_of_some_rows_of_a_table():
    table = make_table([make_host("h1"), make_host("h2").disk(1024), make_host("h3")])
    view = HostView.of(table, np.array([2, 1]))
    assert names(view) == ["h3", "h2"]
    assert list(view.numbers("free_disk_mb")) == [0, 1024]
    assert view.candidates(0) == ()


def test_on_hosts():
    assert list(three().on_hosts(["h3", "H1", "h9"])) == [False, False, True]


def test_what_is_taken_shows_in_all_views_and_not_in_the_table():
    view = three()
    part = view.at([2, 1])
    assert list(part.numbers("free_ram_mb")) == [3000, 2000]
    part.consume(0, free_ram_mb=-500, num_instances=1)
    assert list(part.numbers("free_ram_mb")) == [2500, 2000]
    assert list(view.numbers("free_ram_mb")) == [1000, 2000, 2500]
    assert list(view.at([2]).numbers("num_instances")) == [1]
    assert view.host(2).free_ram_mb == 2500
    assert list(make_view([]).numbers("free_ram_mb")) == []


def test_requests_do_not_see_what_others_take():
    table = make_table([make_host("h1").ram(10)])
    first, second = (HostView.of(table, np.array([0])) for _ in range(2))
    first.consume(0, free_ram_mb=-10)
    assert list(second.numbers("free_ram_mb")) == [10]


def test_a_replaced_value_shows_in_later_views():
    view = three()
    view.at([1]).replace_value(0, "pci_stats", "fewer")
    assert list(view.at([0, 1]).coded("pci_stats")) == [None, "fewer"]
    assert view.host(1).pci_stats.known == "fewer"


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (Needs(), Needs(), Needs()),
        (Needs(frozenset("a")), Needs(frozenset("b")), Needs(frozenset("ab"))),
        (Needs(image_properties=True), Needs(frozenset("a")), Needs(frozenset("a"), image_properties=True)),
    ],
    ids=["nothing", "instances of both", "instances and images"],
)
def test_needs_of_several_rules_are_joined(first, second, both):
    assert first | second == second | first == both


def test_loaded_instances_are_looked_up_once_and_counted():
    hosts = [make_host("h1").holding("i1", "i2"), make_host("h2").holding("i3")]
    source = Instances(hosts)
    view = make_view(hosts, instances=source)
    for _ in range(2):
        view.load(Needs(frozenset({"i1", "i2", "i3", "i9"})))
        assert list(view.count_instances(["i1", "i2", "i3", "i9"])) == [2, 1]
        assert list(view.at([1]).count_instances(["i1", "i3"])) == [1]
        assert list(view.count_instances([])) == [0, 0]
    assert source.asked == 1


def test_what_was_not_loaded_is_not_looked_up():
    hosts = [make_host("h1").holding("i1")]
    source = Instances(hosts)
    view = make_view(hosts, instances=source)
    view.load(Needs())
    with pytest.raises(LookupError):
        view.count_instances(["i1"])
    with pytest.raises(LookupError):
        view.image_properties()
    with pytest.raises(LookupError):
        instances_held(view.host(0), ["i1"])
    assert source.asked == 0


def test_instances_held_by_a_host_are_the_located_and_the_placed_ones():
    view = make_view([make_host("h1").holding("i2"), make_host("h2").holding("i1")])
    view.load(Needs(frozenset({"i1", "i2", "i3"})))
    view.place_instance(0, "i3")
    assert instances_held(view.host(0), ["i3", "i1", "i2"]) == ["i3", "i2"]
    assert instances_held(view.host(1), ["i3", "i1", "i2"]) == ["i1"]


def test_a_placed_instance_counts_on_all_nodes_of_its_service_host():
    view = make_view(
        [make_host("ironic", "n1"), make_host("ironic", "n2"), make_host("ironic", "n3").cell(OTHER_CELL)]
    )
    view.load(Needs(frozenset({"i1"})))
    view.at([1]).place_instance(0, "i1")
    assert list(view.count_instances(["i1"])) == [1, 1, 0]
    assert list(view.host(0).instances) == ["i1"]
    assert list(view.host(2).instances) == []


def test_an_instance_that_was_there_and_is_placed_again_counts_once():
    view = make_view([make_host("h1").holding("i1")])
    view.load(Needs(frozenset({"i1"})))
    view.place_instance(0, "i1")
    assert list(view.count_instances(["i1"])) == [1]


def test_candidates_and_limits():
    view = make_view([make_host("h1").candidate("a", "b"), make_host("h2").candidate("c")])
    view.at([1]).narrow(0, [])
    view.at([0]).limits(0)["numa_topology"] = "limits"
    assert [list(view.candidates(index)) for index in (0, 1)] == [["a", "b"], []]
    assert (view.limits(0), view.limits(1)) == ({"numa_topology": "limits"}, {})


def test_limits_of_many_hosts():
    view = make_view([make_host("a"), make_host("b"), make_host("c")])
    view.limits(0)["vcpu"] = 1.0
    some = view.at([2, 0])
    some.set_limits(np.array([True, True]), "vcpu", np.array([4.0, 5.0]))
    some.set_limits(np.array([False, True]), "disk_gb", np.array([7, 8]))
    assert [view.limits(index) for index in range(3)] == [{"vcpu": 5.0, "disk_gb": 8}, {}, {"vcpu": 4.0}]
    view.limits(0)["vcpu"] = 9.0
    assert some.limits(1) == {"vcpu": 9.0, "disk_gb": 8}
    view.host(2).limits = {"other": 1}
    assert view.limits(2) == {"other": 1}


def test_image_properties_are_read_once_a_host():
    hosts = [make_host("h1").holding("i1", os_distro="linux"), make_host("h2").holding("i2"), make_host("h3")]
    source = Instances(hosts)
    view = make_view(hosts, instances=source)
    part = view.at([0])
    part.load(Needs(image_properties=True))
    assert [list(found) for found in part.image_properties()] == [[{"os_distro": "linux"}]]
    for _ in range(2):
        view.load(Needs(image_properties=True))
        assert [list(found) for found in view.image_properties()] == [[{"os_distro": "linux"}], [{}], []]
    assert source.asked == 2


def test_no_instances():
    source = InstanceSource()
    assert source.locate(["i"]) == source.on_host(CELL, "h") == source.image_properties([(CELL, "h")]) == {}


def test_the_same_facade_within_a_request():
    view = three()
    assert view.host(0) is view.at([0]).host(0)
    assert [state.host for state in view.hosts()] == ["h1", "h2", "h3"]
