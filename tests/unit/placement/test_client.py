import itertools
import logging
import socket
import ssl
import threading
import time

from keystoneauth1 import exceptions, token_endpoint
from keystoneauth1.adapter import Adapter
from keystoneauth1.identity import V3Password
from keystoneauth1.session import Session
from oslo_context.context import RequestContext
import pytest
import requests
import requests_mock
import urllib3

from scheduler.bounds.deadline import Deadline, limit_to
from scheduler.placement.client import TIMEOUTS_IN_A_ROW, PlacementClient
from scheduler.placement.errors import (
    PlacementAuthFailure,
    PlacementSilent,
    PlacementUnanswered,
    PlacementUnreachable,
)
from scheduler.placement.session import Timeouts
from scheduler.rpc import context as rpc_context
from tests.support.clock import Clock

URL = "http://placement.example"
KEYSTONE = "http://keystone.example/v3"
VERSIONS = {"versions": [{"id": "v1.0", "min_version": "1.0", "max_version": "1.39"}]}

NO_PROVIDERS = {"resource_providers": []}
NOT_PLACEMENT = (
    "HTTP {}: not a response of Placement; check [placement]/endpoint_override, or the endpoint in Keystone's "
    "catalog"
)

REFUSED = requests.ConnectionError(
    urllib3.exceptions.MaxRetryError(None, "/", urllib3.exceptions.NewConnectionError(None, "refused"))
)
UNREACHED = requests.ConnectTimeout(
    urllib3.exceptions.MaxRetryError(None, "/", urllib3.exceptions.ConnectTimeoutError(None, "slow"))
)
BAD_CERTIFICATE = requests.exceptions.SSLError(
    urllib3.exceptions.MaxRetryError(
        None, "/", urllib3.exceptions.SSLError(ssl.SSLCertVerificationError("self-signed"))
    )
)
RESET = requests.ConnectionError(
    urllib3.exceptions.ProtocolError("Connection aborted", ConnectionResetError(104))
)
SLOW = requests.ReadTimeout("slow")
SLOW_BODY = requests.ConnectionError(urllib3.exceptions.ReadTimeoutError(None, "/", "slow"))
CUT = requests.exceptions.ChunkedEncodingError("cut")


@pytest.fixture
def http():
    with requests_mock.Mocker() as http:
        yield http


@pytest.fixture
def session():
    session = Session(auth=token_endpoint.Token(URL, "admin"))
    yield session
    session.session.close()


def make(session, clock=time.monotonic, **options):
    adapter = Adapter(session, service_type="placement", raise_exc=False, **options)
    return PlacementClient(adapter, clock=clock)


@pytest.fixture
def client(session):
    return make(session, connect_retry_delay=0.001)


def test_headers(client, http):
    http.put(f"{URL}/allocations/x", status_code=204)
    context = RequestContext(global_request_id="req-11111111-1111-1111-1111-111111111111")
    assert client.write("PUT", "/allocations/x", "1.36", context, b"{}").status == 204
    sent = http.last_request.headers
    assert sent["X-Auth-Token"] == "admin"
    assert sent["OpenStack-API-Version"] == "placement 1.36"
    assert sent["Accept"] == "application/json"
    assert sent["Content-Type"] == "application/json"
    assert sent["X-Openstack-Request-Id"] == context.global_request_id


def test_headers_of_a_delete(client, http):
    http.delete(f"{URL}/allocations/x", status_code=204)
    context = RequestContext()
    client.write("DELETE", "/allocations/x", None, context)
    sent = http.last_request.headers
    assert "OpenStack-API-Version" not in sent
    assert "Content-Type" not in sent
    assert sent["X-Openstack-Request-Id"] == context.request_id


@pytest.mark.parametrize(("search", "timeout"), [(False, (10.0, 15.0)), (True, (10.0, 60.0))])
def test_every_wait_is_bounded(client, http, search, timeout):
    http.get(f"{URL}/x")
    client.get("/x", "1.36", search=search)
    assert http.last_request.timeout == timeout


def test_a_request_does_not_wait_until_a_wall_clock_that_was_set_back_is_where_it_was(
    client, http, monkeypatch
):
    http.get(f"{URL}/x")
    client.get("/x", "1.36")
    waits, now = [], time.time()
    monkeypatch.setattr(time, "time", lambda: now - 3600)
    monkeypatch.setattr(time, "sleep", waits.append)
    client.get("/x", "1.36")
    assert waits == []


FAILED_WRITES = [
    (REFUSED, PlacementUnreachable, None),
    (UNREACHED, PlacementUnreachable, None),
    (BAD_CERTIFICATE, PlacementUnreachable, None),
    (RESET, PlacementUnanswered, False),
    (SLOW, PlacementUnanswered, True),
    (SLOW_BODY, PlacementUnanswered, True),
    (CUT, PlacementUnanswered, False),
]


@pytest.mark.parametrize(("failure", "error", "timed_out"), FAILED_WRITES)
def test_what_a_failed_write_means(client, http, failure, error, timed_out):
    http.put(f"{URL}/x", exc=failure)
    with pytest.raises(error) as caught:
        client.write("PUT", "/x", "1.36", None, b"{}")
    assert getattr(caught.value, "timed_out", None) is timed_out
    assert http.call_count == 1


def test_failure_while_another_is_handled_is_judged_by_itself(client, http):
    http.put(f"{URL}/x", [{"exc": REFUSED}, {"exc": RESET}])
    try:
        client.write("PUT", "/x", "1.36")
    except PlacementUnreachable:
        with pytest.raises(PlacementUnanswered):
            client.write("PUT", "/x", "1.36")


def test_writes_are_repeated_only_if_they_were_not_sent(session, http):
    client = make(session, connect_retries=2, connect_retry_delay=0.001, status_code_retries=2)
    http.put(f"{URL}/x", [{"exc": REFUSED}, {"exc": UNREACHED}, {"status_code": 204}])
    assert client.write("PUT", "/x", "1.36").status == 204
    http.put(f"{URL}/y", [{"exc": RESET}, {"status_code": 204}])
    with pytest.raises(PlacementUnanswered):
        client.write("PUT", "/y", "1.36")
    http.put(f"{URL}/z", [{"status_code": 503}, {"status_code": 204}])
    assert client.write("PUT", "/z", "1.36").status == 503


def test_reads_are_repeated_as_configured(session, http):
    client = make(
        session,
        connect_retries=1,
        connect_retry_delay=0.001,
        status_code_retries=1,
        status_code_retry_delay=0.001,
    )
    http.get(f"{URL}/x", [{"exc": SLOW}, {"text": "{}"}])
    assert client.get("/x", "1.36").status == 200
    http.get(f"{URL}/y", [{"status_code": 503}, {"text": "{}"}])
    assert client.get("/y", "1.36").status == 200


def test_connection_closed_meanwhile_is_no_failure_of_a_read(client, http):
    http.get(f"{URL}/x", [{"exc": RESET}, {"text": "{}"}])
    assert client.get("/x", "1.36").status == 200
    http.get(f"{URL}/y", exc=RESET)
    with pytest.raises(PlacementUnanswered):
        client.get("/y", "1.36")
    http.get(f"{URL}/z", exc=SLOW)
    before = http.call_count
    with pytest.raises(PlacementUnanswered):
        client.get("/z", "1.36")
    assert http.call_count == before + 1


@pytest.mark.parametrize("closes", [True, False])
def test_a_search_whose_answer_breaks_off(session, closes):
    """requests-mock knows no answers that break off half way."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            for _ in range(2 if closes else 1):
                with listener.accept()[0] as connection:
                    connection.recv(65536)
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
                    if not closes:
                        over.wait(60)

        server = threading.Thread(target=serve)
        server.start()
        client = PlacementClient(
            Adapter(session, endpoint_override=f"http://127.0.0.1:{listener.getsockname()[1]}"),
            Timeouts(search=0.2),
        )
        with pytest.raises(PlacementUnanswered) as caught:
            client.get("/x", "1.36", search=True)
        over.set()
        server.join()
    assert caught.value.timed_out is not closes


@pytest.mark.parametrize("request_id", ["req-1\nforged", " req", "\u4e2d", "x" * 100_000], ids=ascii)
def test_a_request_id_that_is_no_header_fails_no_question(client, http, request_id):
    http.get(f"{URL}/x", json={})
    context = rpc_context.RequestContext.from_dict({"request_id": request_id})
    assert client.get("/x", "1.36", context).status == 200
    sent = http.last_request.headers["X-Openstack-Request-Id"]
    assert sent.encode("ascii") == context.request_id.encode()


def test_a_password_in_the_url_of_keystone_is_in_no_error(client, http):
    """The text goes into the decision log, to callers and to whoever asks why."""
    url = "http://nova:pa/ss@keystone.example/v3"
    http.get(f"{URL}/x", exc=requests.ConnectionError(f"Unable to establish connection to {url}: refused"))
    with pytest.raises(PlacementSilent) as caught:
        client.get("/x", "1.36")
    assert "pa/ss" not in f"{caught.value} {caught.value.args}"
    assert "http://***@keystone.example/v3" in str(caught.value)


START = [
    ({"json": VERSIONS}, ""),
    ({"json": {"versions": [{"max_version": "1.35"}]}}, "1.36 is needed"),
    ({"text": "<html>"}, "the next request tries again"),
    ({"json": {"versions": []}}, "the next request tries again"),
    ({"status_code": 503}, "the next request tries again"),
    ({"exc": REFUSED}, ""),
    ({"exc": SLOW}, ""),
]


@pytest.mark.parametrize(("answer", "warning"), START)
def test_start_only_warns_of_what_may_pass(client, http, caplog, answer, warning):
    http.get(f"{URL}/", **answer)
    client.start()
    assert "X-Auth-Token" not in http.last_request.headers
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(messages) == bool(warning)
    assert all(warning in message for message in messages)


class TestKeystone:
    CATALOG = [
        {
            "type": "placement",
            "endpoints": [{"interface": "public", "url": URL, "region": "r", "region_id": "r"}],
        }
    ]

    @pytest.fixture
    def clock(self):
        """A minute passes between any two looks."""
        return itertools.count(0.0, 60.0).__next__

    @pytest.fixture
    def client(self, clock):
        auth = V3Password(KEYSTONE, username="nova", password="secret", user_domain_id="default")
        session = Session(auth=auth)
        yield make(session, clock, interface=["internal", "public"])
        session.session.close()

    def token(self, catalog, name="t1"):
        token = {
            "methods": ["password"], "user": {"id": "u", "name": "nova", "domain": {"id": "default", "name": "d"}},
            "expires_at": "2099-01-01T00:00:00Z", "issued_at": "2020-01-01T00:00:00Z", "catalog": catalog,
        }  # fmt: skip
        return {"json": {"token": token}, "headers": {"X-Subject-Token": name}, "status_code": 201}

    def test_wrong_credentials_are_fatal(self, client, http):
        http.post(f"{KEYSTONE}/auth/tokens", status_code=401)
        with pytest.raises(PlacementAuthFailure):
            client.start()

    @pytest.mark.parametrize("answer", [{"exc": REFUSED}, {"status_code": 503}, {"exc": SLOW}])
    def test_keystone_away_is_not(self, client, http, answer):
        http.post(f"{KEYSTONE}/auth/tokens", **answer)
        client.start()
        with pytest.raises(PlacementUnreachable):
            client.write("PUT", "/x", "1.36", None, b"{}")
        with pytest.raises(PlacementSilent):
            client.get("/x", "1.36")

    def test_placement_appears_in_the_catalog_later(self, client, http):
        http.post(f"{KEYSTONE}/auth/tokens", [self.token([]), self.token(self.CATALOG)])
        http.put(f"{URL}/x", status_code=204)
        with pytest.raises(PlacementUnreachable):
            client.write("PUT", "/x", "1.36", None, b"{}")
        assert client.write("PUT", "/x", "1.36", None, b"{}").status == 204

    def test_expired_token_is_renewed_once(self, client, http):
        http.post(f"{KEYSTONE}/auth/tokens", [self.token(self.CATALOG, "t1"), self.token(self.CATALOG, "t2")])
        http.put(f"{URL}/x", [{"status_code": 401}, {"status_code": 204}])
        assert client.write("PUT", "/x", "1.36", None, b"{}").status == 204
        assert http.last_request.headers["X-Auth-Token"] == "t2"

    def test_second_refusal_is_an_answer(self, client, http):
        http.post(f"{KEYSTONE}/auth/tokens", **self.token(self.CATALOG))
        http.put(f"{URL}/x", status_code=401)
        assert client.write("PUT", "/x", "1.36", None, b"{}").status == 401

    def test_keystone_goes_away_when_the_token_is_refused(self, client, http):
        http.post(
            f"{KEYSTONE}/auth/tokens", [self.token(self.CATALOG), {"exc": exceptions.ConnectFailure("away")}]
        )
        http.put(f"{URL}/x", status_code=401)
        with pytest.raises(PlacementUnreachable):
            client.write("PUT", "/x", "1.36", None, b"{}")


def test_a_placement_that_hangs_costs_only_the_first_requests_their_timeout(session, http):
    clock = Clock()
    client = make(session, clock)
    slow = http.get(f"{URL}/usages", exc=SLOW)
    for _ in range(10):
        with pytest.raises(PlacementSilent):
            client.get("/usages", "1.36")
    assert slow.call_count == TIMEOUTS_IN_A_ROW
    with pytest.raises(PlacementUnreachable, match=r"Placement is left out: Request to .* timed out"):
        client.write("PUT", "/allocations/x", "1.36")


def test_after_a_probe_is_answered_requests_are_sent_again(session, http):
    clock = Clock()
    client = make(session, clock)
    http.get(f"{URL}/usages", exc=SLOW)
    for _ in range(TIMEOUTS_IN_A_ROW):
        with pytest.raises(PlacementSilent):
            client.get("/usages", "1.36")
    http.get(f"{URL}/usages", json={})
    probe = http.get(f"{URL}/", exc=SLOW)
    clock.now += 1
    with pytest.raises(PlacementUnreachable):
        client.get("/usages", "1.36")
    http.get(f"{URL}/", json=VERSIONS)
    clock.now += 2
    assert client.get("/usages", "1.36").status == 200
    assert probe.call_count == 1
    assert probe.last_request.timeout == 2.0


def test_refusals_and_errors_do_not_leave_placement_out(session, http):
    client = make(session)
    http.get(f"{URL}/usages", [{"exc": REFUSED}, {"exc": RESET}] * 5)
    for _ in range(4):
        with pytest.raises(PlacementSilent):
            client.get("/usages", "1.36")
    http.get(f"{URL}/usages", json={})
    assert client.get("/usages", "1.36").status == 200


def test_a_search_ends_with_the_deadline_of_its_request(session, http):
    client = make(session)
    found = http.get(f"{URL}/allocation_candidates", json={})
    with limit_to(Deadline.after(5)):
        client.get("/allocation_candidates", "1.36", search=True)
    assert max(found.last_request.timeout) <= 5
    with limit_to(Deadline.after(-1)), pytest.raises(PlacementUnreachable, match="no longer waits"):
        client.get("/allocation_candidates", "1.36", search=True)
    assert found.call_count == 1


def test_a_search_that_is_sent_again_has_the_time_that_is_left(session, http):
    seconds = itertools.count()
    found = http.get(f"{URL}/allocation_candidates", [{"exc": RESET}, {"text": "{}"}])
    with limit_to(Deadline(50.0, lambda: next(seconds))):
        assert make(session).get("/allocation_candidates", "1.36", search=True).status == 200
    first, second = (max(sent.timeout) for sent in found.request_history)
    assert second < first


@pytest.mark.parametrize(("search", "connection"), [(True, "close"), (False, "keep-alive")])
def test_a_search_has_a_connection_of_its_own(session, http, search, connection):
    http.get(f"{URL}/x")
    used = []

    class Noting(Adapter):
        def request(self, *args, **kwargs):
            used.append(self)
            return super().request(*args, **kwargs)

    others, searches = (Noting(session, service_type="placement", raise_exc=False) for _ in range(2))
    PlacementClient(others, searches=searches).get("/x", "1.36", search=search)
    assert used == [searches if search else others]
    assert http.last_request.headers["Connection"] == connection


def test_a_search_on_the_connections_of_writes_keeps_them_open(client, http):
    http.get(f"{URL}/x")
    client.get("/x", "1.36", search=True)
    assert http.last_request.headers["Connection"] == "keep-alive"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"json": NO_PROVIDERS}, ""),
        ({"json": {}}, NOT_PLACEMENT.format(200)),
        ({"text": "<html>"}, NOT_PLACEMENT.format(200)),
        ({"status_code": 300, "json": {"versions": {"values": []}}}, NOT_PLACEMENT.format(300)),
        ({"status_code": 404, "text": "<html>"}, NOT_PLACEMENT.format(404)),
        ({"status_code": 404, "json": {"error": {"code": 404}}}, NOT_PLACEMENT.format(404)),
        ({"status_code": 500, "text": "<html>"}, "HTTP 500"),
        ({"status_code": 401}, "HTTP 401: it does not accept the token of the user of [placement]"),
        ({"status_code": 403}, "HTTP 403: the user of [placement] lacks the rights"),
        ({"exc": REFUSED}, "no connection"),
        ({"exc": SLOW}, "timed out"),
        ({"exc": BAD_CERTIFICATE}, "a certificate is not trusted; check [placement]/cafile"),
        ({"exc": OSError("invalid path: /ca.pem")}, "no connection: invalid path: /ca.pem"),
    ],
    ids=[
        *("200", "200 of an API", "200 of a web server", "300 of Keystone", "404 of a web server"),
        *("404 of Keystone", "500", "401", "403", "refused", "slow", "untrusted", "no such file"),
    ],
)
def test_a_check_tells_whether_placement_answers_and_why_not(session, http, answer, problem):
    client = make(session)
    assert client.answers is None
    http.get(f"{URL}/resource_providers", **answer)
    said = client.check(unused_for=15.0)
    assert said.startswith(problem)
    assert "is not responding" not in said
    assert client.answers is not bool(problem)
    assert client.problem == problem.partition(": invalid")[0]


@pytest.mark.parametrize(
    ("answer", "answers"),
    [
        ({"status_code": 404, "json": {"errors": [{"status": 404, "detail": "No provider"}]}}, True),
        ({"status_code": 404, "text": "<html>"}, False),
        ({"text": "<html>"}, False),
        ({"status_code": 204}, True),
    ],
    ids=["404 of Placement", "404 of a web server", "200 of a web server", "204"],
)
def test_only_what_placement_says_shows_that_there_is_one(client, http, answer, answers):
    http.get(f"{URL}/usages", **answer)
    client.get("/usages", "1.36")
    assert client.answers is answers


def test_what_a_placement_answers_without_credentials_says_nothing_of_them(session, http):
    client = make(session)
    http.get(f"{URL}/resource_providers", status_code=403)
    http.get(f"{URL}/", json=VERSIONS)
    client.check()
    client.start()
    assert client.answers is False


def test_a_placement_that_answers_checks_but_no_search_is_given_longer_for_searches(session, http):
    client = make(session)
    search = http.get(f"{URL}/allocation_candidates", exc=SLOW)
    http.get(f"{URL}/resource_providers", json=NO_PROVIDERS)
    given = []
    for _ in range(5):
        with pytest.raises(PlacementSilent):
            client.get("/allocation_candidates", "1.36", search=True)
        given.append(search.last_request.timeout[1])
        assert not client.check()
    assert given == [60.0, 120.0, 240.0, 480.0, 480.0]
    http.get(f"{URL}/allocation_candidates", json={})
    client.get("/allocation_candidates", "1.36", search=True)
    assert client.get("/allocation_candidates", "1.36", search=True).status == 200
    assert http.last_request.timeout[1] == 60.0


def test_a_placement_that_requests_use_is_not_checked(session, http):
    clock = Clock()
    client = make(session, clock)
    http.get(f"{URL}/usages", json={})
    check = http.get(f"{URL}/resource_providers", json=NO_PROVIDERS)
    client.get("/usages", "1.36")
    clock.now += 14
    client.check(unused_for=15.0)
    assert (client.answers, check.call_count) == (True, 0)
    clock.now += 1
    client.check(unused_for=15.0)
    assert check.call_count == 1


def test_after_a_failure_placement_is_checked_however_lately_that_was(session, http):
    client = make(session)
    http.get(f"{URL}/usages", exc=REFUSED)
    http.get(f"{URL}/resource_providers", json=NO_PROVIDERS)
    with pytest.raises(PlacementSilent):
        client.get("/usages", "1.36")
    assert client.answers is False
    assert not client.check(unused_for=15.0)
    assert client.answers
