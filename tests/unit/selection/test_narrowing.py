import logging

import pytest

from scheduler.selection.narrowing import narrow
from tests.builders import make_host, make_view
from tests.unit.selection.requests import destination, make_request, make_spec

ALL = ["a/n1", "a/n2", "b/b", "C/c"]
REBUILD = {"_nova_check_type": ["rebuild"]}

# spec: filters-and-weighers 1.6, the table of 13 cases: request, hosts left, whether filters run on them
CASES = [
    ({"ignore_hosts": ["A"]}, ["b/b", "C/c"], True),
    ({"ignore_hosts": ["a", "b", "c"]}, [], False),
    ({"ignore_hosts": ["zz"]}, ALL, True),
    ({"force_hosts": ["c"]}, ["C/c"], False),
    ({"force_nodes": ["C"]}, [], False),
    ({"force_hosts": ["a"], "force_nodes": ["n2"]}, ["a/n2"], False),
    ({"ignore_hosts": ["a"], "force_hosts": ["b", "a"]}, ["b/b"], False),
    ({"force_hosts": ["a"], "scheduler_hints": REBUILD}, ["a/n1", "a/n2"], True),
    ({"requested_destination": destination(host="a", node=None)}, ["a/n1", "a/n2"], True),
    ({"requested_destination": destination(host="a", node="n2")}, ["a/n2"], True),
    ({"requested_destination": destination(host="A", node="n2")}, [], True),
    ({"requested_destination": destination(aggregates=["x"])}, ALL, True),
    ({"requested_destination": destination(host="a", node="n1"), "force_hosts": ["b"]}, [], False),
    # nova fails on these; they read as null here (spec: filters-and-weighers 6, rows 8 and 9)
    ({"requested_destination": destination(host="a")}, ["a/n1", "a/n2"], True),
    ({"force_hosts": ["c"], "scheduler_hints": None}, ["C/c"], False),
]


def view():
    return make_view([make_host("a", "n1"), make_host("a", "n2"), make_host("b"), make_host("C", "c")])


@pytest.mark.parametrize(("fields", "left", "filtered"), CASES)
def test_what_a_request_says_of_hosts(fields, left, filtered):
    narrowed = narrow(view(), make_request(make_spec(**fields)))
    assert [f"{row.host}/{row.nodename}" for row in narrowed.hosts.rows] == left
    assert narrowed.filtered is filtered


def test_what_is_left_out_is_logged_and_told_with_its_reason(caplog):
    caplog.set_level(logging.DEBUG)
    narrowed = narrow(view(), make_request(make_spec(ignore_hosts=["b"], force_nodes=["n2"])))
    assert [record.getMessage() for record in caplog.records if record.levelname == "DEBUG"] == [
        "Rejected: b (b) ignored by request",
        "Rejected: a (n1) not in force_nodes ['n2']",
        "Rejected: C (c) not in force_nodes ['n2']",
    ]
    assert [(each.reason, [row.nodename for row in each.hosts.rows]) for each in narrowed.excluded] == [
        ("ignored by request", ["b"]),
        ("not in force_nodes ['n2']", ["n1", "c"]),
    ]
    assert narrow(view(), make_request(make_spec())).excluded == ()
