from types import SimpleNamespace

from keystoneauth1 import session as keystone_session
from keystoneauth1 import token_endpoint
import pytest
import requests

from scheduler import conf as options
from scheduler import errors
from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.bounds.waits import Waits
from scheduler.request import network

CATALOG = "http://catalog:9696"
OWN = "http://own:9696"
OVERRIDE = "http://override:9696/networking"
PORT = {"id": "p", "network_id": "n", "fixed_ips": []}


def make_context(**fields):
    catalog = [
        {
            "type": "network",
            "name": "neutron",
            "endpoints": [{"region": "one", "internalURL": CATALOG, "publicURL": "http://public"}],
        }
    ]
    defaults = {
        "auth_token": "user-token",
        "service_catalog": catalog,
        "is_admin": False,
        "global_id": "req-1",
    }
    return SimpleNamespace(**{**defaults, **fields})


def make_client(*, own=True, service_auth=None, **endpoint_options):
    session = keystone_session.Session(auth=token_endpoint.Token(OWN, "own-token") if own else None)
    endpoint = {"service_type": "network", "interface": ["internal", "public"], **endpoint_options}
    return network.NeutronNetwork(session, endpoint, service_auth=service_auth)


def serve_port(requests_mock, base=CATALOG, **answer):
    return requests_mock.get(f"{base}/v2.0/ports/p", **(answer or {"json": {"port": PORT}}))


def test_port_is_read_with_the_users_token(requests_mock):
    route = serve_port(requests_mock)
    assert make_client().port(make_context(), "p") == PORT
    headers = route.last_request.headers
    assert headers["X-Auth-Token"] == "user-token"
    assert headers["X-Openstack-Request-Id"] == "req-1"
    assert "X-Service-Token" not in headers


def test_service_token_goes_along(requests_mock):
    route = serve_port(requests_mock)
    make_client(service_auth=token_endpoint.Token(OWN, "service-token")).port(make_context(), "p")
    assert route.last_request.headers["X-Auth-Token"] == "user-token"
    assert route.last_request.headers["X-Service-Token"] == "service-token"


@pytest.mark.parametrize(
    ("client", "context", "base"),
    [
        ({}, {}, CATALOG),
        ({"endpoint_override": OVERRIDE}, {}, OVERRIDE),
        ({"endpoint_override": f"{OVERRIDE}/v2.0/"}, {}, OVERRIDE),
        ({"region_name": "one"}, {}, CATALOG),
        ({}, {"service_catalog": []}, OWN),
        ({}, {"service_catalog": None}, OWN),
    ],
)
def test_where_neutron_is(client, context, base, requests_mock):
    route = serve_port(requests_mock, base)
    assert make_client(**client).port(make_context(**context), "p") == PORT
    assert route.last_request.headers["X-Auth-Token"] == "user-token"


def test_neutron_is_nowhere(requests_mock):
    with pytest.raises(errors.NetworkError):
        make_client(own=False).port(make_context(service_catalog=[]), "p")
    with pytest.raises(errors.NetworkError):
        make_client(own=False, region_name="elsewhere").port(make_context(), "p")
    assert not requests_mock.called


def test_admin_without_token_uses_our_own(requests_mock):
    route = serve_port(requests_mock, OWN)
    make_client().port(make_context(auth_token=None, is_admin=True), "p")
    assert route.last_request.headers["X-Auth-Token"] == "own-token"


@pytest.mark.parametrize(("own", "is_admin"), [(True, False), (False, True)])
def test_nobody_to_ask_as(own, is_admin, requests_mock):
    with pytest.raises(errors.NetworkUnauthorized):
        make_client(own=own).port(make_context(auth_token=None, is_admin=is_admin), "p")
    assert not requests_mock.called


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"status_code": 404}, errors.PortNotFound),
        ({"status_code": 401}, errors.NetworkUnauthorized),
        ({"status_code": 403}, errors.NetworkForbidden),
        ({"status_code": 500}, errors.NetworkError),
        ({"exc": requests.exceptions.ConnectTimeout}, errors.NetworkError),
        ({"text": "<html>"}, errors.NetworkError),
        ({"json": []}, errors.NetworkError),
        ({"json": {"port": None}}, errors.NetworkError),
    ],
)
def test_port_trouble(answer, error, requests_mock):
    serve_port(requests_mock, **answer)
    with pytest.raises(error) as caught:
        make_client().port(make_context(), "p")
    assert type(caught.value) is error


def test_segments_are_read_with_our_own_token(requests_mock):
    subnets = [{"segment_id": "s1"}, {"segment_id": None}, {}, {"segment_id": "s2"}]
    route = requests_mock.get(f"{OWN}/v2.0/subnets", json={"subnets": subnets})
    assert make_client().segments_of_network(make_context(), "n") == ["s1", "s2"]
    assert route.last_request.qs == {"network_id": ["n"], "fields": ["segment_id"]}
    assert route.last_request.headers["X-Auth-Token"] == "own-token"


def test_segments_without_credentials_of_our_own(requests_mock):
    route = requests_mock.get(f"{CATALOG}/v2.0/subnets", json={"subnets": []})
    assert make_client(own=False).segments_of_network(make_context(), "n") == []
    assert route.last_request.headers["X-Auth-Token"] == "user-token"


@pytest.mark.parametrize(
    ("subnet", "segment"), [({"segment_id": "s"}, "s"), ({"segment_id": None}, None), ({}, None)]
)
def test_segment_of_subnet(subnet, segment, requests_mock):
    requests_mock.get(f"{OWN}/v2.0/subnets/x", json={"subnet": subnet})
    assert make_client().segment_of_subnet(make_context(), "x") == segment


def test_segment_trouble(requests_mock):
    requests_mock.get(f"{OWN}/v2.0/subnets/x", status_code=404)
    requests_mock.get(f"{OWN}/v2.0/subnets", status_code=503)
    with pytest.raises(errors.NetworkError):
        make_client().segment_of_subnet(make_context(), "x")
    with pytest.raises(errors.NetworkError):
        make_client().segments_of_network(make_context(), "n")


def make_conf(tmp_path, text):
    path = tmp_path / "nova.conf"
    path.write_text(text)
    conf = options.new()
    conf([], default_config_files=[str(path)])
    return conf


def test_from_conf(tmp_path, requests_mock):
    conf = make_conf(
        tmp_path,
        f"[neutron]\nauth_type = admin_token\nendpoint = {OWN}\ntoken = own\nregion_name = one\n"
        "[service_user]\nsend_service_user_token = true\n"
        f"auth_type = admin_token\nendpoint = {OWN}\ntoken = service\n",
    )
    client = network.NeutronNetwork.from_conf(conf)
    route = serve_port(requests_mock)
    client.port(make_context(), "p")
    assert route.last_request.headers["X-Service-Token"] == "service"
    assert route.last_request.timeout == network.DEFAULT_TIMEOUT
    own = requests_mock.get(f"{OWN}/v2.0/subnets", json={"subnets": []})
    client.segments_of_network(make_context(), "n")
    assert own.last_request.headers["X-Auth-Token"] == "own"


def test_from_conf_without_credentials(tmp_path, requests_mock, caplog):
    conf = make_conf(tmp_path, "[neutron]\ntimeout = 5\n[service_user]\nsend_service_user_token = true\n")
    route = serve_port(requests_mock)
    network.NeutronNetwork.from_conf(conf).port(make_context(), "p")
    assert route.last_request.timeout == 5
    assert "X-Service-Token" not in route.last_request.headers
    assert "send_service_user_token" in caplog.text


@pytest.mark.parametrize("section", ["auth_type = no-such-plugin", "auth_type = password"])
def test_unusable_credentials_are_left_out(section, tmp_path, requests_mock, caplog):
    client = network.NeutronNetwork.from_conf(make_conf(tmp_path, f"[neutron]\n{section}\n"))
    route = serve_port(requests_mock)
    client.port(make_context(), "p")
    assert route.called
    assert "Cannot use the credentials in [neutron]" in caplog.text


def test_connections_are_tried_again(tmp_path, requests_mock, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    client = network.NeutronNetwork.from_conf(make_conf(tmp_path, "[neutron]\nhttp_retries = 2\n"))
    route = requests_mock.get(
        f"{CATALOG}/v2.0/ports/p",
        [{"exc": requests.exceptions.ConnectTimeout}] * 2 + [{"json": {"port": PORT}}],
    )
    assert client.port(make_context(), "p") == PORT
    assert route.call_count == 3


def test_a_neutron_that_hangs_costs_only_the_first_requests_their_timeout(requests_mock):
    route = serve_port(requests_mock, exc=requests.exceptions.ReadTimeout("slow"))
    client = make_client()
    for _ in range(10):
        with pytest.raises(errors.NetworkError):
            client.port(make_context(), "p")
    assert route.call_count == network.TIMEOUTS_IN_A_ROW
    with pytest.raises(errors.NetworkError, match="Neutron is left out"):
        client.port(make_context(), "p")


class SlowCatalog(token_endpoint.Token):
    """Notes what the request waits for while the address of Neutron is looked up."""

    def __init__(self, waits):
        super().__init__(OWN, "own-token")
        self.waits, self.seen = waits, []

    def get_endpoint(self, *args, **kwargs):
        self.seen.append(self.waits.current and self.waits.current.text)
        return super().get_endpoint(*args, **kwargs)


def test_looking_up_the_address_is_a_wait_and_ends_while_neutron_is_left_out(requests_mock):
    waits = Waits()
    auth = SlowCatalog(waits)
    client = network.NeutronNetwork(keystone_session.Session(auth=auth), {"service_type": "network"})
    requests_mock.get(f"{OWN}/v2.0/subnets", exc=requests.exceptions.ReadTimeout("slow"))
    with waits:
        for _ in range(network.TIMEOUTS_IN_A_ROW + 3):
            with pytest.raises(errors.NetworkError):
                client.segments_of_network(make_context(), "n")
    assert set(auth.seen) == {"Neutron"}
    assert len(auth.seen) == network.TIMEOUTS_IN_A_ROW


def test_the_deadline_of_the_request_bounds_the_wait_for_neutron(requests_mock):
    route = serve_port(requests_mock)
    with limit_to(Deadline.after(3)):
        make_client().port(make_context(), "p")
    assert route.last_request.timeout <= 3
    with limit_to(Deadline.after(-1)), pytest.raises(errors.NetworkError, match="no longer waits"):
        make_client().port(make_context(), "p")
    assert route.call_count == 1
