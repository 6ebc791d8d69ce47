import json

from keystoneauth1 import adapter, session, token_endpoint
import pytest
import requests

from conductor_client import errors
from conductor_client.claims import Allocations, placement_adapter
from tests.unit.conductor_client.doubles import make_conf, make_selection, make_spec

URL = "http://placement"
EMPTY = {"allocations": {}}
PROVIDER_CONFLICT = {"errors": [{"code": "placement.concurrent_update", "detail": "Another thread"}]}
CONSUMER_CONFLICT = {
    "errors": [{"code": "placement.concurrent_update", "detail": "consumer generation conflict - expected 1"}]
}
FULL = {"errors": [{"code": "placement.undefined_code", "detail": "would exceed the capacity"}]}


@pytest.fixture
def slept():
    return []


@pytest.fixture
def allocations(slept):
    auth = token_endpoint.Token(URL, "admin")
    placement = adapter.Adapter(session.Session(auth=auth), service_type="placement", raise_exc=False)
    return Allocations(placement, slept.append)


def body(request):
    return json.loads(request.text)


def test_a_fresh_claim_sends_the_selections_own_text(requests_mock, allocations):
    requests_mock.get(f"{URL}/allocations/i", json=EMPTY)
    put = requests_mock.put(f"{URL}/allocations/i", status_code=204)
    selection = make_selection("a")
    assert allocations.claim("i", selection, make_spec())
    assert body(put.last_request) == {
        **json.loads(selection.allocation_request),
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": None,
    }
    assert put.last_request.headers["OpenStack-API-Version"] == "placement 1.36"


def test_what_is_held_already_is_kept(requests_mock, allocations):
    held = {"old": {"generation": 4, "resources": {"VCPU": 2}}}
    requests_mock.get(f"{URL}/allocations/i", json={"allocations": held, "consumer_generation": 7})
    put = requests_mock.put(f"{URL}/allocations/i", status_code=204)
    selection = make_selection("a")
    assert allocations.claim("i", selection, make_spec())
    sent = body(put.last_request)
    assert set(sent["allocations"]) == {"old", selection.compute_node_uuid}
    assert sent["allocations"]["old"] == {"resources": {"VCPU": 2}}
    assert sent["consumer_generation"] == 7
    assert "mappings" not in sent


@pytest.mark.parametrize("text", ["", "null", None])
def test_nothing_to_claim_needs_no_request(requests_mock, allocations, text):
    selection = make_selection("a")
    selection.allocation_request = text
    assert allocations.claim("i", selection, make_spec())
    assert not requests_mock.called


@pytest.mark.parametrize(
    ("answers", "claimed", "tries"),
    [
        ([{"status_code": 204}], True, 1),
        ([{"status_code": 409, "json": FULL}], False, 1),
        ([{"status_code": 409, "json": PROVIDER_CONFLICT}, {"status_code": 204}], True, 2),
        ([{"status_code": 409, "json": PROVIDER_CONFLICT}] * 4, False, 4),
        ([{"status_code": 503, "text": "<html>"}], False, 1),
    ],
)
def test_answers_of_placement(requests_mock, allocations, slept, answers, claimed, tries):
    requests_mock.get(f"{URL}/allocations/i", json=EMPTY)
    put = requests_mock.put(f"{URL}/allocations/i", answers)
    assert allocations.claim("i", make_selection("a"), make_spec()) is claimed
    assert put.call_count == tries
    assert all(pause <= bound for pause, bound in zip(slept, (0, 2, 4, 6), strict=False))


def test_a_consumer_that_changed_is_an_error(requests_mock, allocations):
    requests_mock.get(f"{URL}/allocations/i", json=EMPTY)
    requests_mock.put(f"{URL}/allocations/i", status_code=409, json=CONSUMER_CONFLICT)
    with pytest.raises(errors.AllocationUpdateFailed, match="consumer generation conflict"):
        allocations.claim("i", make_selection("a"), make_spec())


OWNER = {"project_id": "p", "user_id": "u"}
HELD = {"a": {"generation": 4, "resources": {"VCPU": 2}}, "b": {"generation": 5, "resources": {"VCPU": 1}}}


def holding(requests_mock, consumer, allocations, generation):
    held = {"allocations": allocations, "consumer_generation": generation, **OWNER} if allocations else EMPTY
    requests_mock.get(f"{URL}/allocations/{consumer}", json=held)


@pytest.mark.parametrize(("replaced", "generation"), [({}, None), ({"c": HELD["a"]}, 3)])
def test_a_move_is_one_request_for_both_consumers(requests_mock, allocations, replaced, generation):
    holding(requests_mock, "i", HELD, 7)
    holding(requests_mock, "m", replaced, 3)
    post = requests_mock.post(f"{URL}/allocations", status_code=204)
    assert allocations.move("i", "m")
    kept = {"a": {"resources": {"VCPU": 2}}, "b": {"resources": {"VCPU": 1}}}
    assert body(post.last_request) == {
        "m": {"allocations": kept, "consumer_generation": generation, **OWNER},
        "i": {"allocations": {}, "consumer_generation": 7, **OWNER},
    }


def test_there_is_nothing_to_move(requests_mock, allocations):
    holding(requests_mock, "i", {}, None)
    holding(requests_mock, "m", {}, None)
    assert not allocations.move("i", "m")


@pytest.mark.parametrize(
    ("answers", "done"),
    [
        ([{"status_code": 204}], True),
        ([{"status_code": 409, "json": PROVIDER_CONFLICT}, {"status_code": 204}], True),
        ([{"status_code": 409, "json": CONSUMER_CONFLICT}], False),
        ([{"status_code": 409, "json": FULL}], False),
        ([{"exc": requests.exceptions.ConnectionError}], False),
    ],
)
def test_a_provider_is_dropped_and_the_rest_is_kept(requests_mock, allocations, answers, done):
    holding(requests_mock, "i", HELD, 7)
    put = requests_mock.put(f"{URL}/allocations/i", answers)
    assert allocations.drop("i", "a") is done
    kept = {"b": {"resources": {"VCPU": 1}}}
    assert body(put.last_request) == {"allocations": kept, "consumer_generation": 7, **OWNER}


@pytest.mark.parametrize(("status", "gone"), [(204, True), (404, True), (500, False)])
def test_removal(requests_mock, allocations, status, gone):
    requests_mock.delete(f"{URL}/allocations/i", status_code=status)
    assert allocations.remove("i") is gone


def test_removal_survives_a_placement_that_is_away(requests_mock, allocations):
    requests_mock.delete(f"{URL}/allocations/i", exc=requests.exceptions.ConnectionError)
    assert allocations.remove("i") is False


def test_adapter_of_the_configuration_has_a_time_limit():
    conf = make_conf(placement__auth_type="none", placement__endpoint_override=URL)
    assert placement_adapter(conf).session.timeout == 60
