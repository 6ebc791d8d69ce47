"""The OpenStack cloud of tools/berth cloud, as far as it needs no server."""

from collections import Counter
import contextlib
import importlib
from pathlib import Path
import re
import sys

import openstack
from openstack.compute.v2 import server
import psutil
import pytest

from tools.openstack import api, burst, outage, plans, software, tempest, users
from tools.openstack.command import COMMANDS
from tools.openstack.configuration import Configuration
from tools.openstack.layout import Layout
from tools.openstack.services import Service, Services

ROOT = Path(__file__).parents[3]
#: Of openstacksdk about itself.
pytestmark = [
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK50Warning"),
    pytest.mark.filterwarnings("ignore::openstack.warnings.RemovedInSDK60Warning"),
]


@pytest.fixture
def layout(tmp_path):
    layout = Layout(tmp_path / "cloud", tmp_path / "software")
    layout.prepare(8)
    return layout


SLEEPS = (
    "import os, time; print(os.environ['SAYS'], os.environ.get('PYTHONPATH'), flush=True); time.sleep(600)"
)


@pytest.fixture
def sleeper(layout, monkeypatch):
    (layout.directory / "logs").mkdir()
    described = {"sleeper": ([sys.executable, "-c", SLEEPS], {"SAYS": "50% of it"})}
    monkeypatch.setattr(Services, "_described", lambda _: described)
    services = Services(layout)
    services.supervise()
    yield services["sleeper"]
    pids = [services["sleeper"].pid, int((layout.directory / "supervisord.pid").read_text())]
    services.shut_down()
    assert not any(map(psutil.pid_exists, filter(None, pids)))
    assert not services.supervised


def again(layout):
    return Layout(layout.directory)


def test_the_next_command_finds_the_cloud_as_it_was_left(layout, tmp_path):
    with layout.step("databases"):
        pass
    found = again(layout)
    assert found.exists
    assert found.done("databases")
    assert not found.done("schemas")
    assert found.software == tmp_path / "software"
    assert (found.password, found.port("compute")) == (layout.password, layout.port("compute"))


def test_a_step_that_fails_is_done_again(layout):
    with contextlib.suppress(RuntimeError), layout.step("schemas"):
        raise RuntimeError
    assert not again(layout).done("schemas")


def test_passwords_are_readable_by_the_user_only(layout):
    Configuration(layout)
    assert (layout.directory / "cloud.json").stat().st_mode & 0o077 == 0


def test_both_cells_have_hosts_of_both_zones(layout):
    pairs = Counter((cell, layout.zone_of(host)) for host, cell in layout.hosts.items())
    assert set(pairs.values()) == {2}
    assert len(pairs) == 4


def test_one_command_at_a_time_changes_a_cloud(layout):
    with layout.locked(), pytest.raises(RuntimeError, match="another command"), again(layout).locked():
        pass
    with again(layout).locked():
        pass


@pytest.mark.slow
def test_a_service_is_found_and_stopped_by_another_command(layout, sleeper):
    assert not sleeper.running
    sleeper.start()
    found = Service(again(layout), "sleeper")
    assert found.running
    found.wait_for_line("50% of it None")
    found.stop()
    assert not sleeper.running


@pytest.mark.slow
def test_a_killed_service_is_no_longer_running_and_is_started_again(layout, sleeper):
    sleeper.start()
    pid = sleeper.pid
    sleeper.kill()
    assert not sleeper.running
    Service(again(layout), "sleeper").start()
    assert sleeper.running
    assert sleeper.pid != pid


@pytest.mark.slow
def test_a_started_service_is_not_started_twice(layout, sleeper):
    sleeper.start()
    pid = sleeper.pid
    Services(again(layout)).supervise()  # as a second "up" does
    sleeper.start()
    assert sleeper.pid == pid


def test_without_a_supervisor_a_service_says_where_it_was_looked_for(layout):
    with pytest.raises(RuntimeError, match=str(layout.directory)):
        _ = Service(layout, "sleeper").running


def test_services_listen_on_loopback_only(layout):
    paste = layout.software / "cloud" / "etc" / "nova" / "api-paste.ini"
    paste.parent.mkdir(parents=True)
    paste.write_text("[composite:x]\n")
    configuration = Configuration(layout)
    configuration.write()
    text = "".join(path.read_text() for path in (layout.directory / "etc").rglob("*.*"))
    assert "$" not in text
    assert set(re.findall(r"\b\d+\.\d+\.\d+\.\d+\b", text)) == {"127.0.0.1"}
    assert re.findall(r"^bind = (.*):", text, re.MULTILINE) == ['"127.0.0.1'] * 5


def test_the_modules_of_berth_that_are_run_exist():
    from tools.openstack import plans, programs, services

    for command in (programs.STATUS_MODULE, plans.MODULE, *services.MODULES.values()):
        module, *program = command.split()
        found = importlib.import_module(module)
        assert program[0] in found.PROGRAMS if program else callable(found.main)


NOVA = {"a": "success", "b": "fail", "c": "skip", "d": "success"}


@pytest.mark.parametrize(
    ("results", "found"),
    [
        ({"nova": NOVA, "berth": NOVA}, []),
        ({"nova": NOVA, "berth": {**NOVA, "a": "fail"}}, ["a"]),
        ({"nova": NOVA, "berth": {**NOVA, "b": "success"}}, []),
        ({"nova": NOVA, "berth": {name: NOVA[name] for name in "abc"}}, ["d"]),
        ({"nova": NOVA, "berth": {**NOVA, "d": "skip"}}, ["d"]),
        ({"nova": NOVA}, []),
        ({"berth": NOVA}, ["b"]),
    ],
)
def test_a_regression_is_a_test_that_passes_with_nova_scheduler_only(results, found):
    assert tempest.regressions(results) == found


def test_differences_of_tests_are_listed_with_both_outcomes():
    lines = tempest.compare({"nova": NOVA, "berth": {**NOVA, "a": "fail"}})
    assert lines == [
        "nova: 1 fail, 2 passed, 1 skip",
        "berth: 2 fail, 1 passed, 1 skip",
        "a: nova success, berth fail",
        "b: nova fail, berth fail",
    ]


@pytest.mark.parametrize("name", [*tempest.SETS, "excluded"])
def test_each_set_of_tests_is_a_list_of_patterns(name):
    patterns = tempest.patterns(name)
    assert patterns
    for pattern in patterns:
        re.compile(pattern)


def test_a_pattern_that_no_test_matches_is_noticed():
    results = {"tempest.api.compute.test_boots.Boots.test_boot": "success"}
    assert tempest.unmatched([r"test_boots\.", r"test_moves\."], results) == [r"test_moves\."]


CONDUCTOR = """\
2026-11-27 04:02:18.115 1 DEBUG x [req] CALL msg_id: aa1 exchange 'nova' topic 'scheduler' _send f:1
2026-11-27 04:02:18.200 1 DEBUG x [req] CALL msg_id: bb2 exchange 'nova' topic 'compute.cmp-01' _send f:1
2026-11-27 04:02:18.250 1 DEBUG x [-] received reply msg_id: bb2 __call__ f:2
2026-11-27 04:02:18.365 1 DEBUG x [-] received reply msg_id: aa1 __call__ f:2
2026-11-27 04:02:19.000 1 DEBUG x [req] CALL msg_id: cc3 exchange 'nova' topic 'scheduler' _send f:1
"""


def test_the_calls_of_the_scheduler_are_read_off_the_log_of_the_conductor():
    assert burst.call_times(CONDUCTOR) == [0.25]


def test_the_time_of_a_server_runs_from_its_request():
    found = {"created_at": "2026-11-27T04:02:18Z", "launched_at": "2026-11-27T04:02:25.500000"}
    assert burst.seconds_of(server.Server.new(**found)) == 7.5


@pytest.fixture
def nova(layout, requests_mock, monkeypatch):
    """nova's API with one server that was unshelved, and the actions of it; no Keystone."""
    url = layout.url("compute")
    options = {"auth_type": "none", "endpoint": url, "compute_endpoint_override": url, **api.OPTIONS}
    monkeypatch.setattr(api, "connect", lambda _: openstack.connect(**options))
    version = {"id": "v2.1", "status": "CURRENT", "version": "2.96", "min_version": "2.1"}
    version["links"] = [{"rel": "self", "href": f"{url}/"}]
    requests_mock.get(url, json={"version": version})
    requests_mock.get(f"{url}/", json={"version": version})
    requests_mock.get(f"{url}/servers/s1", json={"server": {
        "id": "s1", "status": "SHELVED_OFFLOADED", "OS-EXT-STS:task_state": "spawning",
    }})  # fmt: skip
    requests_mock.get(f"{url}/servers/s1/os-instance-actions", json={"instanceActions": [
        {"action": "unshelve", "request_id": "req-2"}, {"action": "create", "request_id": "req-1"},
    ]})  # fmt: skip
    requests_mock.get(f"{url}/servers/s1/os-instance-actions/req-2", json={"instanceAction": {
        "action": "unshelve", "request_id": "req-2", "message": "Error", "events": [
            {"event": "conductor_unshelve_instance", "host": "c1", "result": "Error", "traceback": "NoValidHost"}
        ],
    }})  # fmt: skip
    return requests_mock


def test_a_wait_that_fails_says_what_nova_says_of_the_last_action(layout, nova):
    with pytest.raises(api.ResourceTimeout) as error:
        api.Api(layout).wait("s1", "ACTIVE", patience=0)
    for said in ("SHELVED_OFFLOADED", "spawning", "not ACTIVE", "unshelve (req-2)", "c1: Error NoValidHost"):
        assert said in str(error.value)


def test_each_operation_of_a_user_has_an_outcome(layout, nova):
    nova.get(f"{layout.url('compute')}/images/guest", status_code=503)
    with users.Users(api.Api(layout), 2) as crowd:
        crowd.phase = "nothing serves"
        assert list(crowd.boot("x", 3)) == [None] * 3
    assert [(each.operation, each.phase) for each in crowd.outcomes] == [("boot", "nothing serves")] * 3


def test_operations_are_counted_by_phase():
    outcomes = [
        users.Outcome("boot", "nova serves", 1, None),
        users.Outcome("delete", "nova serves", 1, "500"),
        users.Outcome("boot", "berth serves", 1, None),
    ]
    _, nova, berth = users.table(outcomes)
    assert nova.split()[:3] == ["nova", "serves", "1"]
    assert nova.split()[-1] == "1"
    assert berth.split()[-1] == "0"


def test_a_build_that_is_not_accepted_is_no_build_in_error():
    line = outage.line_of(outage.Result("berth", "mariadb kill", 3, Counter(ACTIVE=5, ERROR=1, BUILD=2), 4))
    assert line.split() == ["berth", "mariadb", "kill", "5", "1", "2", "3", "4"]


def test_a_burst_in_which_nothing_became_active_has_a_line():
    assert burst.line_of(burst.Burst("nova", [], [], 1.0, 7)).startswith("nova      0 ACTIVE, 7 ERROR;")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_what_it_does(name, capsys):
    from tools.openstack.command import main

    with pytest.raises(SystemExit) as end:
        main([name, "--help"])
    assert end.value.code == 0
    assert COMMANDS[name].__doc__.split(";")[0].rstrip(".") in " ".join(capsys.readouterr().out.split())


def test_a_command_without_a_cloud_says_how_to_start_one(tmp_path):
    from tools.openstack.command import main

    with pytest.raises(RuntimeError, match="tools/berth cloud up"):
        main(["--directory", str(tmp_path), "status"])
    assert not list(tmp_path.iterdir())


def test_why_openstack_cannot_be_installed_is_one_line():
    fails = "print('Looking'); print('ERROR: no such registry'); raise SystemExit(1)"
    with pytest.raises(RuntimeError, match=r"^OpenStack cannot be installed: ERROR: no such registry$"):
        software._run(sys.executable, "-c", fails)


def test_nova_is_asked_for_the_servers_of_a_host(layout, nova):
    answer = {"servers": [{"id": "s1", "OS-EXT-SRV-ATTR:host": "cmp-01"}]}
    asked = nova.get(f"{layout.url('compute')}/servers/detail", json=answer)
    assert api.Api(layout).on("cmp-01") == ["s1"]
    assert asked.last_request.qs == {"host": ["cmp-01"], "all_tenants": ["true"]}


@pytest.mark.parametrize("name", plans.RUNS)
def test_each_run_has_servers_of_known_kinds_and_a_row_on_the_page(name):
    kinds = plans.RUNS[name].servers
    assert kinds
    assert set(kinds) <= {"active", *plans.WISHES, *plans.STATES}
    page = (ROOT / "doc" / "source" / "real-cloud.rst").read_text()
    assert re.search(rf"^{name}  ", page, re.MULTILINE)


class Broken:
    """An API with an error of its own."""

    def boot(self, *_, **__):
        raise AttributeError("no such operation")


def test_a_user_who_is_ended_by_an_error_of_the_program_ends_the_scenario():
    crowd = users.Users(Broken(), 1)
    crowd.work()
    with pytest.raises(AttributeError, match="no such"):
        crowd.wait_for_more(1, patience=30)
