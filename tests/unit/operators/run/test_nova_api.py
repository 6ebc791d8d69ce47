"""nova's API by openstacksdk, against answers of a server."""

import json
from types import SimpleNamespace

import keystoneauth1.exceptions as of_session
import openstack
import pytest
import requests_mock

from scheduler.operators.run import nova_api
from scheduler.operators.run.nova_api import (
    Action,
    NotAllowed,
    NovaApi,
    Refused,
    Unanswered,
)
from scheduler.placement.reply import Reply

#: Of the library about itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]

NOVA, UUID = "http://nova.example/v2.1", "8f8b7d2e-0000-4000-8000-000000000001"
VERSIONS = {
    "version": {
        "id": "v2.1", "status": "CURRENT", "version": "2.100", "min_version": "2.1",
        "links": [{"rel": "self", "href": f"{NOVA}/"}],
    }
}  # fmt: skip
SERVER = {
    "id": UUID,
    "name": "web",
    "tenant_id": "p",
    "status": "ACTIVE",
    "OS-EXT-SRV-ATTR:host": "cmp-01",
    "OS-EXT-STS:vm_state": "active",
    "OS-EXT-STS:task_state": "migrating",
}


@pytest.fixture
def http():
    with requests_mock.Mocker() as mocker:
        mocker.get(f"{NOVA}/", json=VERSIONS)
        mocker.get(NOVA, json=VERSIONS)
        yield mocker


@pytest.fixture
def nova(http):
    return NovaApi(
        openstack.connect(
            auth_type="none", endpoint=NOVA, compute_endpoint_override=NOVA, load_yaml_config=False
        )
    )


def action(http, **reply):
    return http.post(f"{NOVA}/servers/{UUID}/action", **(reply or {"status_code": 202}))


@pytest.mark.parametrize(
    ("way", "body", "version"),
    [
        ("live", {"os-migrateLive": {"host": "cmp-02", "block_migration": "auto"}}, "2.30"),
        ("cold", {"migrate": {"host": "cmp-02"}}, "2.56"),
        ("evacuate", {"evacuate": {"host": "cmp-02"}}, "2.56"),
    ],
)
def test_each_way_names_its_target_which_the_scheduler_checks(nova, http, way, body, version):
    """Neither forces the host; up to 2.94 an evacuated server is started."""
    sent = action(http)
    nova.move(UUID, way, "cmp-02")
    assert sent.last_request.json() == body
    assert sent.last_request.headers["OpenStack-API-Version"] == f"compute {version}"


def test_confirming_and_resetting(nova, http):
    sent = action(http, status_code=204)
    nova.confirm(UUID)
    nova.reset_state(UUID)
    bodies = [json.loads(one.text) for one in sent.request_history]
    assert bodies == [{"confirmResize": None}, {"os-resetState": {"state": "error"}}]


def test_a_server(nova, http):
    http.get(f"{NOVA}/servers/{UUID}", json={"server": SERVER})
    server = nova.server(UUID)
    assert (server.compute_host, server.vm_state, server.task_state) == ("cmp-01", "active", "migrating")
    assert (server.name, server.project_id, server.fault) == ("web", "p", None)
    http.get(
        f"{NOVA}/servers/{UUID}", status_code=404, json={"itemNotFound": {"message": "gone", "code": 404}}
    )
    assert nova.server(UUID) is None


def test_a_service_is_disabled_by_its_id_with_a_reason(nova, http):
    found = {
        "id": "s1", "host": "cmp-01", "binary": "nova-compute", "status": "enabled", "state": "up",
        "disabled_reason": None,
    }  # fmt: skip
    http.get(f"{NOVA}/os-services", json={"services": [found]})
    service = nova.service("cmp-01")
    assert (service.status, service.state, service.disabled_reason) == ("enabled", "up", None)
    assert nova.service("cmp-0") is None
    sent = http.put(f"{NOVA}/os-services/s1", json={"service": found})
    nova.disable(service, "new fans")
    assert sent.last_request.json() == {"status": "disabled", "disabled_reason": "new fans"}
    nova.enable(service)
    assert sent.last_request.json() == {"status": "enabled"}


def event(name, result, traceback=None):
    return {
        "event": name,
        "result": result,
        "traceback": traceback,
        "start_time": "2026-01-01T00:00:01.000000",
    }


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([event("conductor_migrate_server", None)], ("", True)),
        ([event("cold_migrate", "Error", "  File x\nNoValidHost: none\n")], ("NoValidHost: none",)),
        (
            [
                event("compute_live_migration", "Error", "x\n"),
                event("conductor_live_migrate_instance", "Success"),
            ],
            ("x",),
        ),
        (
            [event("compute_rebuild_instance", None), event("rebuild_server", "Success")],
            ("", True),
        ),
        ([event("compute_resize_instance", "Error")], ("nova records no reason",)),
    ],
)
def test_why_the_latest_move_failed(nova, http, events, expected):
    path = f"{NOVA}/servers/{UUID}/os-instance-actions"
    listed = [
        {"action": name, "request_id": f"req-{name}", "start_time": f"2026-01-01T00:00:0{second}.000000"}
        for second, name in enumerate(("create", "migrate", "stop"))
    ]
    http.get(path, json={"instanceActions": listed})
    http.get(f"{path}/req-migrate", json={"instanceAction": listed[1] | {"events": events}})
    assert nova.latest_action(UUID) == Action("migrate", 1767225601.0, *expected)


def test_a_resize_after_a_migration_is_the_latest_action(nova, http):
    path = f"{NOVA}/servers/{UUID}/os-instance-actions"
    listed = [
        {"action": name, "request_id": f"req-{name}", "start_time": f"2026-01-01T00:00:0{second}.000000"}
        for second, name in enumerate(("migrate", "confirmResize", "resize", "stop"))
    ]
    http.get(path, json={"instanceActions": listed})
    http.get(f"{path}/req-resize", json={"instanceAction": listed[2] | {"events": []}})
    assert nova.latest_action(UUID).name == "resize"


def test_no_move_was_requested(nova, http):
    http.get(f"{NOVA}/servers/{UUID}/os-instance-actions", json={"instanceActions": []})
    assert nova.latest_action(UUID) is None


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ({"status_code": 409, "json": {"conflictingRequest": {"message": "is locked"}}}, Refused),
        ({"status_code": 400, "json": {"badRequest": {"message": "in use"}}}, Refused),
        ({"status_code": 403, "json": {"forbidden": {"message": "Policy"}}}, NotAllowed),
        ({"status_code": 401, "json": {}}, NotAllowed),
        ({"status_code": 500, "json": {}}, Unanswered),
        ({"status_code": 503, "text": "no backend"}, Unanswered),
        ({"status_code": 429, "json": {}}, Unanswered),
        ({"exc": of_session.ConnectFailure("refused")}, Unanswered),
        ({"exc": of_session.ConnectTimeout("60 s")}, Unanswered),
    ],
)
def test_errors_say_whether_nova_may_have_acted(nova, http, reply, error):
    action(http, **reply)
    with pytest.raises(error) as raised:
        nova.move(UUID, "cold", "cmp-02")
    if error is Refused:
        assert next(iter(reply["json"].values()))["message"] in str(raised.value)


def test_without_a_cloud_the_error_names_what_to_set(monkeypatch, tmp_path):
    for name in ("OS_CLOUD", "OS_AUTH_URL", "OS_CLIENT_CONFIG_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(NotAllowed):
        nova_api.connect("no-such-cloud")


def test_consumers_of_providers_take_one_request_each(monkeypatch):
    body = b'{"resource_provider_generation": 1, "allocations": {"c": {"resources": {"VCPU": 1}}}}'
    replies = {"/resource_providers/p/allocations": Reply(200, body)}
    client = SimpleNamespace(get=lambda path, _version, _context: replies.pop(path, Reply(404)))
    monkeypatch.setattr(nova_api.PlacementClient, "from_conf", lambda _conf: client)
    assert nova_api.PlacementView(None).consumers_of(["p", "gone"]) == {"c"}
    assert replies == {}
