"""What nova refuses to move or to evacuate, in every plan."""

from functools import partial

import pytest

from scheduler import objects
from scheduler.operators.plan.drain import drain
from scheduler.operators.plan.movable import not_evacuated, way_of, way_off_a_dead_host
from scheduler.operators.plan.survive import by_hosts, survive
from tests.unit.operators.plan.clouds import MadeCloud, flavor, node, uuid_of


def devices(live=False, port=False):
    """A request for one device, by an alias or of a port."""
    spec = {"vendor_id": "8086"} | ({"live_migratable": "true"} if live else {})
    request = objects.InstancePCIRequest(
        count=1, spec=[spec], alias_name=None if port else "gpu", request_id=None
    )
    return objects.InstancePCIRequests(instance_uuid=uuid_of("i"), requests=[request])


TPM = {"hw__tpm_version": "2.0"}
HOST_HAS_SECRET = TPM | {"hw__tpm_secret_security": "host"}


@pytest.mark.parametrize(
    ("state", "extra_specs", "computes", "way"),
    [
        ("active", TPM, 74, "cold"),
        ("stopped", TPM, 74, "cold"),
        ("active", HOST_HAS_SECRET, 72, "live"),
        ("active", HOST_HAS_SECRET, 71, "cold"),
        ("active", TPM | {"hw__tpm_secret_security": "deployment"}, 74, "cold"),
        ("active", {"hw__mem_encryption": "yes"}, 74, "cold"),
        ("active", {"hw__mem_encryption": "false"}, 74, "live"),
    ],
)
def test_what_nova_migrates_cold_only(state, extra_specs, computes, way):
    cloud = MadeCloud(node("h1"), node("h2")).put("i", "h1", flavor(**extra_specs), state=state)
    snapshot = cloud.snapshot()
    snapshot.hosts.minimum_compute_version = lambda: computes
    snapshot.load_requests([0])
    assert way_of(snapshot, 0) == (way, "", False)


@pytest.mark.parametrize("service", ["down", "forced_down"])
def test_nothing_is_migrated_off_a_host_that_is_down(service):
    cloud = (
        MadeCloud(getattr(node("h1"), service)(), node("h2")).put("i", "h1").put("j", "h1", state="stopped")
    )
    plan = drain(cloud.planned(), [0])
    assert plan.moves == []
    assert {one.why for one in plan.without_place} == {
        "nova migrates nothing off a host that is down; see --evacuate"
    }
    evacuate = partial(way_off_a_dead_host, reset_states=False)
    assert [move.way for move in drain(cloud.planned(), [0], evacuate).moves] == ["evacuate"] * 2


def test_a_virtual_tpm_is_lost_with_its_host():
    cloud = MadeCloud(node("h1"), node("h2")).put("a", "h1").put("tpm", "h1", flavor("win", **TPM))
    plan = drain(cloud.planned(), [0], partial(way_off_a_dead_host, reset_states=True))
    assert [move.instance for move in plan.moves] == [uuid_of("a")]
    planned = cloud.planned()
    (found,) = survive(planned, by_hosts(planned.snapshot)).answers
    assert (found.placed, found.missing) == (1, {})
    for stuck in (plan.without_place, found.without_place):
        assert [(one.instance, one.why) for one in stuck] == [
            (uuid_of("tpm"), "nova evacuates no instance with a virtual TPM")
        ]


@pytest.mark.parametrize(
    ("state", "task", "wanted", "way", "why"),
    [
        ("active", "", None, "live", ""),
        ("paused", "", None, "live", ""),
        ("stopped", "", None, "cold", ""),
        ("rescued", "", None, "", "nova moves no instance that is rescued"),
        ("error", "", None, "", "nova moves no instance that is error"),
        ("active", "powering-off", None, "", "nova moves no instance while its task state is powering-off"),
        ("active", "", devices(), "cold", ""),
        ("active", "", devices(live=True), "live", ""),
        ("active", "", devices(port=True), "live", ""),
        ("paused", "", devices(), "", "nova migrates its PCI devices cold only, and no paused instance cold"),
    ],
)
def test_how_nova_moves_an_instance(state, task, wanted, way, why):
    cloud = MadeCloud(node("h1"), node("h2"))
    cloud.put("i", "h1", state=state, task=task, **({"pci_requests": wanted} if wanted else {}))
    snapshot = cloud.snapshot()
    snapshot.load_requests([0])
    assert way_of(snapshot, 0) == (way, why, False)


def test_a_drain_leaves_what_has_a_task_state():
    cloud = MadeCloud(node("h1"), node("h2")).put("i", "h1", task="powering-off").put("j", "h1").planned()
    plan = drain(cloud, [0])
    assert [move.instance for move in plan.moves] == [uuid_of("j")]
    assert [(one.task_state, one.why) for one in plan.without_place] == [
        ("powering-off", "nova moves no instance while its task state is powering-off")
    ]


@pytest.mark.parametrize(
    ("state", "task", "reset_states", "expected"),
    [
        ("active", "powering-off", False, ("evacuate", "", False)),
        ("stopped", "", False, ("evacuate", "", False)),
        ("error", "", False, ("evacuate", "", False)),
        (
            "paused",
            "",
            False,
            ("", "nova evacuates no instance that is paused before its state is reset", False),
        ),
        ("paused", "", True, ("evacuate", "", True)),
        ("soft-delete", "", True, ("", "nova evacuates no instance that is soft-delete", False)),
    ],
)
def test_how_nova_moves_an_instance_off_a_dead_host(state, task, reset_states, expected):
    cloud = MadeCloud(node("h1"), node("h2")).put("i", "h1", state=state, task=task).planned()
    way = partial(way_off_a_dead_host, reset_states=reset_states)
    assert way(cloud.snapshot, 0) == expected
    plan = drain(cloud, [0], way)
    found = [(move.way, "", move.reset_state) for move in plan.moves]
    found += [("", one.why, False) for one in plan.without_place]
    assert found == [expected]


def test_a_failure_is_not_survived_while_nova_evacuates_only_a_part():
    """A task state does not keep nova from evacuating."""
    cloud = MadeCloud(node("h1"), node("h2"), node("h3"))
    cloud.put("a", "h1").put("b", "h1", state="rescued").put("c", "h1", state="paused")
    cloud.put("d", "h2", task="powering-off").put("e", "h2", state="error")
    planned = cloud.planned()
    found = survive(planned, by_hosts(planned.snapshot))
    assert (found.domains, found.survived, found.survived_by_hand) == (2, 1, 1)
    assert [(one.domain, one.placed, one.by_hand) for one in found.answers] == [
        ("h1", 3, {"paused": 1, "rescued": 1}),
        ("h2", 2, {}),
    ]
    assert not_evacuated(planned.snapshot, range(5)) == [1, 2]
