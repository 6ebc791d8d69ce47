import pytest

from conductor_client import journal
from conductor_client.journal import Event, Record
from tools import demo_report, demo_run, vhosts
from tools.truth import Truth


def test_requests_are_the_same_again_and_as_many_as_asked_for():
    assert demo_run.make_requests(50, 1) == demo_run.make_requests(50, 1)
    assert demo_run.make_requests(50, 1) != demo_run.make_requests(50, 2)
    assert sum(len(request.uuids) for request in demo_run.make_requests(50, 1)) == 50


def test_a_request_as_a_conductor_sends_it():
    (request,) = demo_run.make_requests(1, 1)
    spec = request.spec()
    assert spec.instance_uuid == request.uuids[0]
    assert {"VCPU": spec.vcpus, "MEMORY_MB": spec.memory_mb, "DISK_GB": spec.root_gb} == request.amounts


def test_a_story_names_the_hosts_in_order():
    events = [
        Event("i", journal.FAILED, host="a", at=1),
        Event("i", journal.REFUSED, host="b", at=2),
        Event("i", journal.BUILDING, host="c", at=3),
        Event("i", journal.ACTIVE, host="c", at=4),
    ]
    good, bad, refused = demo_report.GOOD, demo_report.BAD, demo_report.REFUSED
    assert demo_report.story(Record("i", events)) == f"a {bad}  b {refused}  c {good}"


@pytest.mark.parametrize(
    ("problems", "finished", "status", "shown"),
    [
        ([], True, 0, "none left over"),
        (["Left over: x"], True, 1, "Left over: x"),
        ([], False, 1, "neither built nor given up"),
    ],
)
def test_the_verdict(capsys, problems, finished, status, shown):
    assert demo_report.verdict(Truth(1, 2, problems), finished) == status
    assert shown in capsys.readouterr().out


@pytest.mark.parametrize(
    ("url", "cell_url"),
    [
        ("rabbit://u:p@host:5672/", "rabbit://u:p@host:5672/berth-cell1"),
        ("rabbit://u:p@host:5672//", "rabbit://u:p@host:5672/berth-cell1"),
        ("rabbit://u:p@host/nova?ssl=1", "rabbit://u:p@host/nova-cell1?ssl=1"),
    ],
)
def test_virtual_hosts_of_cells(url, cell_url):
    assert vhosts.sibling(url, "cell1") == cell_url
