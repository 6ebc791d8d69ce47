"""Selections and alternates, as conductors get them."""

from scheduler import objects
from scheduler.selection.alternates import NO_ALLOCATION, alternates, as_dicts, scheduler_limits, selection
from tests.builders import CELL, OTHER_CELL, make_host, make_view, uuid_of
from tests.unit.selection.requests import host_with_candidate


def offered(hosts, order, chosen=(), unmapped=()):
    view = make_view(hosts)
    found = alternates(view, order, CELL, chosen, lambda host: host not in unmapped)
    return [view.row(index).host for index in found]


def three_hosts():
    return [host_with_candidate(f"h{number}") for number in (1, 2, 3)]


def test_alternates_keep_the_order_and_leave_out_the_chosen_host():
    assert offered(three_hosts(), [2, 1, 0], chosen={uuid_of("h2")}) == ["h3", "h1"]


def test_hosts_of_other_cells_and_without_a_candidate_or_a_mapping_are_no_alternates():
    hosts = [make_host("bare"), *three_hosts()]
    hosts[1].cell(OTHER_CELL)
    assert offered(hosts, [0, 1, 2, 3], unmapped={"h3"}) == ["h2"]


def test_a_selection_without_a_candidate_has_no_allocation():
    found = selection(make_view([make_host("h1")]), 0, None, "nova")
    assert (found.allocation_request, found.allocation_request_version) == (NO_ALLOCATION, None)
    assert (found.service_host, found.availability_zone) == ("h1", "nova")


def test_limits_are_cut_to_integers_and_those_unknown_or_without_a_bound_left_out():
    some = {"memory_mb": 1024.7, "vcpu": None, "strange": 1}
    assert scheduler_limits(some).to_dict() == {"memory_mb": 1024}
    others = {"memory_mb": float("inf"), "vcpu": float("nan"), "disk_gb": 3.0}
    assert scheduler_limits(others).to_dict() == {"disk_gb": 3}


def test_the_older_form_is_the_chosen_host_of_each_instance():
    view = make_view(three_hosts())
    pair = [selection(view, index, None, "nova") for index in (0, 1)]
    assert as_dicts([pair, pair[1:]]) == [
        {"host": "h1", "nodename": "h1", "limits": {}},
        {"host": "h2", "nodename": "h2", "limits": {}},
    ]
    assert isinstance(pair[0], objects.Selection)
