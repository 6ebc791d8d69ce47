"""Members of a server group in failure domains of their own, counted by hand."""

import pytest

from scheduler.filters.affinity_filter import FailureDomainFilter
from tests.builders import Instances, make_host, make_view
from tests.support.options import make_conf
from tests.unit.filters.asking import make_request, prepared

HINT = {"different_failure_domain": ["true"]}


def cloud():
    """Racks r1 (h1, h2) and r2 (h3, h4); h5 is in both, h6 in none. Member m1 is on h1, m6 on h6."""
    hosts = [make_host(f"h{number}") for number in range(1, 7)]
    for host, rack in zip(hosts, ("r1", "r1", "r2", "r2", "r1", None), strict=True):
        if rack:
            host.aggregate(f"rack {rack}", failure_domain=rack, power=f"feed of {rack}")
    hosts[4].aggregate("rack r2", failure_domain="r2")
    hosts[0].holding("m1")
    hosts[5].holding("m6")
    return hosts


def view_of(hosts):
    return make_view(hosts, instances=Instances(hosts))


def passing(hosts, *members, policy="anti-affinity", hints=HINT, extra_specs=None, **options):
    group = {"uuid": "g", "policy": policy, "policies": [policy], "members": [*members, "X"], "hosts": []}
    request = make_request(extra_specs, hints=hints, group=group)
    view = view_of(hosts)
    judge = prepared(FailureDomainFilter(make_conf(**options)), view, request)
    if judge is None:
        return "all"
    verdict = judge.passes(view)
    return " ".join(row.host for row, kept in zip(view.rows, verdict, strict=True) if kept)


CASES = {
    "an empty group": ([], {}, "h1 h2 h3 h4 h5"),
    "a member in r1": (["m1"], {}, "h3 h4"),
    "a member without a domain": (["m6"], {}, "h1 h2 h3 h4 h5"),
    "a member that is nowhere": (["m9"], {}, "h1 h2 h3 h4 h5"),
    "the instance itself is in r1": (["X"], {}, "h1 h2 h3 h4 h5"),
    "a soft policy": (["m1"], {"policy": "soft-anti-affinity"}, "h3 h4"),
    "no hint": (["m1"], {"hints": None}, "all"),
    "the hint says no": (["m1"], {"hints": {"different_failure_domain": ["false"]}}, "all"),
    "a flavor that says so": (
        ["m1"],
        {"hints": None, "extra_specs": {"berth:different_failure_domain": "true"}},
        "h3 h4",
    ),
    "the hint overrules the flavor": (
        ["m1"],
        {
            "hints": {"different_failure_domain": ["false"]},
            "extra_specs": {"berth:different_failure_domain": "true"},
        },
        "all",
    ),
    "another key": (["m1"], {"berth__failure_domain_key": "power"}, "h3 h4"),
    "a key that no aggregate has": (["m1"], {"berth__failure_domain_key": "room"}, ""),
}


@pytest.mark.parametrize(("members", "more", "expected"), CASES.values(), ids=CASES)
def test_hosts_that_pass(members, more, expected):
    hosts = cloud()
    hosts[1].holding("X")
    assert passing(hosts, *members, **more) == expected


def test_without_a_group_it_does_not_apply():
    assert FailureDomainFilter(make_conf()).prepare(make_request(hints=HINT)) is None


def test_members_that_the_request_has_placed_count():
    hosts = cloud()
    view = view_of(hosts)
    group = {"uuid": "g", "policy": "anti-affinity", "policies": ["anti-affinity"], "members": ["X", "Y"]}
    request = make_request(hints=HINT, group={**group, "hosts": []})
    judge = prepared(FailureDomainFilter(make_conf()), view, request)
    view.place_instance(0, "X")
    request.progress.instance_uuid = "Y"
    assert judge.passes(view).tolist() == [False, False, True, True, False, False]


def test_members_on_hosts_that_placement_does_not_offer_count():
    hosts = cloud()
    view = view_of(hosts)
    group = {"uuid": "g", "policy": "anti-affinity", "policies": ["anti-affinity"], "members": ["m1"]}
    judge = prepared(
        FailureDomainFilter(make_conf()), view, make_request(hints=HINT, group={**group, "hosts": []})
    )
    assert judge.passes(view.at([1, 3])).tolist() == [False, True]


def test_the_reason_names_the_domain():
    view = view_of(cloud())
    group = {"uuid": "g", "policy": "anti-affinity", "policies": ["anti-affinity"], "members": ["m1"]}
    judge = prepared(
        FailureDomainFilter(make_conf()), view, make_request(hints=HINT, group={**group, "hosts": []})
    )
    assert judge.reason(view.host(1)) == "members of group g in failure_domain r1"
    assert judge.reason(view.host(5)) == "host is in no aggregate with failure_domain"
