"""berth-explain: what it prints of decisions that schedulers or a decision log have."""

import contextlib
import csv
from datetime import datetime
import io
import itertools
import json
from types import SimpleNamespace
from urllib.parse import quote_plus
import uuid

import msgspec
import pytest
import yaml

from scheduler import conf as options
from scheduler.decisions.document import Error, encode, time_text
from scheduler.decisions.memory import DecisionMemory
from scheduler.decisions.open_requests import MOST_LISTED, OpenRequest
from scheduler.operators import app, programs
from scheduler.operators.shown import command as shown_command
from scheduler.request.scheduling_request import SchedulingRequest
from scheduler.rpc import explain, transport
from scheduler.version import version
from tests.support.options import make_conf
from tests.support.pages import Page
from tests.unit.decisions.decisions import decide, record_of
from tests.unit.filters.asking import make_spec
from tests.unit.operators.plan.clouds import MadeCloud, flavor, node
from tests.unit.selection.requests import host_with_candidate
from tools.rig import memory_bus

#: A busy machine takes longer than the 5 seconds that an operator waits.
PATIENT = ("--timeout", "60")

CONF = """\
[DEFAULT]
transport_url = fake://
control_exchange = {exchange}
host = ctl
[api_database]
connection = sqlite:///{directory}/api.db
"""


def make_trace(**fields):
    """A request that no host could take."""
    conf = make_conf(
        enabled_filters=["ComputeFilter", "RamFilter"],
        available_filters=[
            "nova.scheduler.filters.all_filters",
            "nova.scheduler.filters.ram_filter.RamFilter",
        ],
    )
    hosts = [host_with_candidate("h1").down(), host_with_candidate("h2"), host_with_candidate("h3")]
    spec = make_spec(sizes={"memory_mb": 99999}, instance_uuid="i", project_id="p", **fields)
    trace = decide(conf, hosts, SchedulingRequest.of(spec, ["i"]))
    trace.decision.request_id = "req-1"
    return trace


@pytest.fixture
def trace():
    """A request that no host could take."""
    return make_trace()


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "nova.conf"
    path.write_text(CONF.format(exchange=uuid.uuid4().hex, directory=tmp_path))
    return path


@pytest.fixture
def run(config, caplog):
    """A function from arguments to exit status, output and what was logged; ``errors`` is standard error."""

    def run(*argv):
        output, errors = io.StringIO(), io.StringIO()
        caplog.clear()
        status = programs.explain(["--config-file", str(config), *argv], stdout=output, stderr=errors)
        run.errors = errors.getvalue()
        return status, output.getvalue(), caplog.text

    return run


@contextlib.contextmanager
def serving(config, host, trace, waiting=()):
    """Run a scheduler on a host that knows a decision."""
    conf = options.load(["--config-file", str(config)])
    memory = DecisionMemory(10, 2**30)
    memory.add(record_of(trace.decision))
    answers = {
        "decision": lambda name: (memory.find(name) or b"").decode() or None,
        "decisions": memory.entries,
        "host_history": memory.host_history,
        "waiting": lambda: msgspec.to_builtins(list(waiting)),
    }
    bus = transport.rpc_transport(conf)
    server = memory_bus.serve(explain.methods(answers), bus, host, explain.TOPIC, explain.VERSION)
    server.start()
    try:
        yield
    finally:
        server.stop()
        server.wait()


@pytest.fixture
def scheduler(config, trace):
    """A running scheduler that knows the decision."""
    with serving(config, "ctl", trace):
        yield


@pytest.fixture(autouse=True)
def cloud(monkeypatch):
    """Hosts h1, which is disabled, and h9, each without a free VCPU."""

    def read(_conf, host):
        made = {"h1": node("h1", vcpus=4).disabled("x"), "h9": node("h9", vcpus=4)}
        cloud = MadeCloud(*made.values())
        for name in made:
            cloud.put(f"on {name}", name, of=flavor(vcpus=4))
        snapshot = cloud.snapshot()
        snapshot.table = snapshot.table.only(host)
        snapshot.instances.rows[:] = -1
        return contextlib.nullcontext(snapshot)

    monkeypatch.setattr("scheduler.operators.snapshot.snapshot.read", read)


@pytest.fixture
def log(tmp_path, trace):
    """A decision log with the decision."""
    directory = tmp_path / "log"
    directory.mkdir()
    (directory / "decisions-1-1-1.jsonl").write_bytes(encode(trace.decision) + b"\n")
    return str(directory)


def cells(output, word):
    """The cells of the first line of a table that has a word."""
    line = next(line for line in output.splitlines() if word in line)
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_scheduler_explains_a_decision(run, scheduler):
    status, output, _ = run("decision", "req-1")
    assert status == 0
    assert output.startswith("Request req-1: build of i\n")
    assert "Result: no host (NoValidHost)\n" in output
    assert "\nCause: 2 hosts are rejected only by RamFilter: " in output
    assert " (resources)\nRemedy: Add capacity" in output
    assert cells(output, "| Placement")[:3] == ["Placement", "", "3"]
    assert cells(output, "| ComputeFilter")[1:3] == ["3", "2"]
    assert cells(output, "| RamFilter")[1:3] == ["2", "0"]
    assert cells(output, "| RamFilter: ")[0] == "2"
    assert cells(output, "| RamFilter: ")[2] == "h2, h3"
    assert cells(output, "| h2 ")[3] == "rejected"
    assert cells(output, "| h2 ")[4] == "RamFilter"


def test_the_header_has_what_was_asked_for_and_what_may_surprise(run, config):
    trace = make_trace(hints={"same_host": ["A"]}, image={"hw_disk_bus": "virtio"}, force_hosts=["h1"])
    trace.decision.notes.append("No aggregate is availability zone az77")
    with serving(config, "ctl", trace):
        status, output, _ = run("decision", "req-1")
    assert status == 0
    assert "\n  forced to h1\n  hints same_host=A\n  image hw_disk_bus=virtio\n" in output
    assert "\n  note: No aggregate is availability zone az77\n" in output


def test_the_partition_that_decided_is_shown(run, config, trace):
    trace.decision.partition = "b"
    with serving(config, "ctl", trace):
        status, output, _ = run("decision", "req-1")
    assert status == 0
    assert "\n  partition b\n" in output


def test_a_text_ends_with_time_cloud_version_and_options(run, scheduler):
    _, output, _ = run("decision", "req-1", "--hosts", "3", "--max-width", "100")
    time = json.loads(run("decision", "req-1", "-f", "json")[1])["time"][:19].replace("T", " ")
    expected = f"{time} UTC, database api.db, Berth {version()}: decision req-1 --hosts 3"
    assert output.splitlines()[-1] == expected


def test_the_cloud_is_its_region_or_its_database_and_no_password_is_shown(run, config, log):
    config.write_text(config.read_text().replace("sqlite:///", "mysql://nova:secret@db.example/"))
    output = run("decision", "req-1", "--log", log)[1]
    assert "database api.db on db.example, Berth" in output
    assert "secret" not in output
    config.write_text(config.read_text() + "[placement]\nregion_name = north\n")
    assert "region north, Berth" in run("decision", "req-1", "--log", log)[1]


def test_the_document_is_the_same_in_json_and_yaml(run, scheduler):
    _, as_json, _ = run("decision", "i", "-f", "json")
    _, as_yaml, _ = run("decision", "i", "-f", "yaml")
    assert json.loads(as_json) == yaml.safe_load(as_yaml)
    assert json.loads(as_json).items() >= {"source": "memory", "scheduler": "ctl", "version": 4}.items()


def test_json_has_the_keys_of_the_decision_log(run, scheduler, log):
    told = json.loads(run("decision", "i", "-f", "json")[1])
    logged = json.loads(run("decision", "i", "-f", "json", "--log", log)[1])
    assert told.pop("origin")["command"] == ["decision", "i"]
    assert logged.pop("origin")["command"] == ["decision", "i", "--log", log]
    assert {**logged, "source": "memory", "scheduler": "ctl"} == told


def test_csv_has_the_hosts(run, scheduler):
    _, output, _ = run("decision", "req-1", "-f", "csv", "--hosts", "0")
    assert [row["Host"] for row in csv.DictReader(io.StringIO(output))] == ["h2", "h3", "h1"]


STUCK = OpenRequest("req-1", ("i1", "i2", "i3"), 7, 12.0, "placement", "Placement (GET /x)", 11.5)
FRESH = OpenRequest("req-2", ("i9",), 0, 0.1, "selection", "", 0.0)


@contextlib.contextmanager
def two_schedulers(config, trace, one, another):
    with serving(config, "ctl", trace, one), serving(config, "ctl2", trace, another):
        yield ("--scheduler", "ctl", "--scheduler", "ctl2", *PATIENT)


def test_the_requests_in_progress_of_all_schedulers_are_listed_the_oldest_first(run, config, trace):
    with two_schedulers(config, trace, [FRESH], [STUCK]) as asked:
        status, output, _ = run("waiting", *asked)
    assert status == 0
    assert output.startswith("Requests in progress: 2 (schedulers asked: ctl, ctl2)\n")
    assert cells(output, "| req-1") == [
        *("12.0", "placement", "Placement (GET /x)", "11.5", "req-1", "i1, i2, i3 and 7 more", "ctl2"),
    ]
    assert cells(output, "| req-2") == ["0.1", "selection", "", "", "req-2", "i9", "ctl"]
    assert output.index("req-1") < output.index("req-2")


def test_the_requests_in_progress_as_json_and_csv(run, config, trace):
    with two_schedulers(config, trace, [FRESH], [STUCK]) as asked:
        listed = json.loads(run("waiting", *asked, "-f", "json")[1])
        rows = list(csv.DictReader(io.StringIO(run("waiting", *asked, "-f", "csv")[1])))
    assert [one["request_id"] for one in listed] == ["req-1", "req-2"]
    assert listed[0] == {
        "scheduler": "ctl2",
        "request_id": "req-1",
        "instances": ["i1", "i2", "i3"],
        "more_instances": 7,
        "age": 12.0,
        "step": "placement",
        "waits_for": "Placement (GET /x)",
        "waited": 11.5,
    }
    assert [row["Waits for"] for row in rows] == ["Placement (GET /x)", ""]


def test_no_request_in_progress_is_an_answer(run, config, trace):
    with serving(config, "ctl", trace):
        status, output, _ = run("waiting")
    assert (status, output.splitlines()[:-1]) == (0, ["Requests in progress: 0 (schedulers asked: ctl)"])


def test_a_scheduler_that_does_not_answer_hides_no_other(run, config, trace):
    with serving(config, "ctl", trace, [STUCK]):
        asked = ("--scheduler", "ctl", "--scheduler", "gone", "--timeout", "1")
        status, output, logged = run("waiting", *asked)
    assert (status, "req-1" in output) == (0, True)
    assert "Scheduler gone did not answer" in logged


def test_a_list_that_was_cut_says_so(run, config, trace):
    with serving(config, "ctl", trace, [FRESH] * MOST_LISTED):
        _, output, _ = run("waiting")
    assert f"\nOnly the {MOST_LISTED} oldest are listed of: ctl\n" in output


NASTY = "\x1b]0;PWN\x07\u202e\nResult: forged"


@pytest.fixture
def nasty():
    """A decision in which all that users can choose has escape sequences."""
    trace = make_trace(availability_zone=NASTY, hints={NASTY: [NASTY]})
    decision = trace.decision
    decision.request_id, decision.summary = f"req-1{NASTY}", f"RamFilter rejected {NASTY}"
    decision.queries = [f"required=CUSTOM_{quote_plus(NASTY)}"]
    decision.availability_zone = decision.project_id = NASTY
    decision.error = Error("NoValidHost", NASTY)
    decision.partition = NASTY
    decision.candidates.reason = NASTY
    return trace


@pytest.mark.parametrize(
    "argv",
    [
        ["decision", "i"],
        ["decision", "i", "-f", "csv"],
        ["decision", "i", "-f", "value"],
        ["decision", "i", "-f", "yaml"],
        ["decision", "i", "-f", "json"],
        ["list"],
        ["list", "-f", "value"],
        ["list", "--max-width", "60"],
        ["host", "h1", "--decision", "i"],
        ["host", f"h1{NASTY}", "--decision", "i"],
    ],
    ids=" ".join,
)
def test_escape_sequences_of_users_do_not_reach_the_terminal(run, config, nasty, argv):
    with serving(config, "ctl", nasty):
        _, output, logged = run(*argv)
    for line in f"{output}{run.errors}".split("\n"):
        assert line.isprintable()
        assert not line.startswith("Result: forged")
    assert output or logged


def test_hosts_beyond_the_bound_are_counted(run, scheduler):
    _, output, _ = run("decision", "req-1", "--hosts", "1")
    assert cells(output, "2 more")[0] == "2 more"


def test_a_host_is_explained_without_a_decision(run, scheduler):
    status, output, _ = run("host", "h1", *PATIENT)
    assert status == 0
    assert output.startswith("Host h1, node h1, cell 0001, zone nova, as of ")
    problem = "lacks an enabled compute service: service disabled (x)"
    assert f"\n  problem: {problem}\n" in output
    assert "it was considered for 1, chosen for 0, an alternate for 0\n" in output
    assert (
        f"\nRemedy: Enable the compute services, or wait until their maintenance ends.\n  {problem}\n"
        in output
    )
    assert cells(output, "| VCPU") == ["VCPU", "4", "0", "1", "4", "0", "4"]
    assert cells(output, "| ComputeFilter")[:2] == ["1", "ComputeFilter"]


def test_requests_that_did_not_name_a_host_are_looked_at_as_of_now(run, scheduler):
    output = run("host", "h9", *PATIENT)[1]
    said = "1 host lacks 99999 MEMORY_MB and 1 VCPU"
    assert f"Request req-1 (flavor m1), as of now: {said}" in output
    assert "\nRemedy: Add larger hosts, raise the ratio or reserve less of MEMORY_MB, or use" in output
    told = json.loads(run("host", "h9", "-f", "json", *PATIENT)[1])
    assert told["history"]["unexplained"][0]["requests"] == 1
    assert said in told["now"][0]["decision"]["summary"]
    assert told["state"]["nodes"][0]["provider"]["usages"]["VCPU"] == 4


def test_a_log_tells_what_became_of_a_host_without_a_scheduler(run, log):
    status, output, _ = run("host", "h1", "--log", log)
    assert status == 0
    assert output.startswith("Of 1 request since ")
    output = run("host", "h1", "--log", log, "--since", "2099-01-01T00:00")[1]
    assert output.startswith("No request for hosts is kept\nRemedy: ")


def test_the_history_of_a_host_is_that_of_all_schedulers(run, config, trace):
    with contextlib.ExitStack() as stack:
        for host in ("ctl", "ctl2"):
            stack.enter_context(serving(config, host, trace))
        output = run("host", "h1", "--scheduler", "ctl", "--scheduler", "ctl2", *PATIENT)[1]
    assert "Of 2 requests since " in output


def test_a_host_is_unknown_to_schedulers(run, scheduler):
    status, _, logged = run("host", "h8", *PATIENT)
    assert (status, "No compute node" in logged) == (1, True)


def test_a_host_is_explained_up_to_the_filter_that_rejected_it(run, scheduler):
    status, output, _ = run("host", "h1", "--decision", "req-1")
    assert status == 0
    assert cells(output, "| ComputeFilter ")[2] == "rejected (decisive)"
    assert cells(output, "| RamFilter ")[2] == "not run"
    assert "as of now" not in output


def test_on_request_a_host_is_also_explained_as_of_now(run, scheduler):
    output = run("host", "h1", "--decision", "req-1", "--now")[1]
    assert "cell cell1: rejected (ComputeFilter: " in output
    assert "As of now (20" in output
    assert "not of the decision: 1 host lacks " in output
    assert "an enabled compute service: service disabled (x)" in output
    assert "1 VCPU: at most 0 VCPU free" in output


def test_a_host_that_the_decision_does_not_name_is_explained_as_of_now(run, scheduler):
    status, output, _ = run("host", "h9", "--decision", "req-1")
    assert status == 0
    assert "not of the decision: 1 host lacks 99999 MEMORY_MB and 1 VCPU" in output
    assert "99999 MEMORY_MB: MEMORY_MB capacity 8192" in output
    told = json.loads(run("host", "h9", "--decision", "req-1", "-f", "json")[1])
    assert (told["then"], told["now"]["why"]["hosts"]) == ([], 1)


def test_a_rejected_host_that_was_not_asked_for_its_reason_is_explained_as_of_now_too(run, config, trace):
    trace.decision.hosts.failing = [-1] * len(trace.decision.hosts.host)
    with serving(config, "ctl", trace):
        output = run("host", "h1", "--decision", "req-1")[1]
    assert "cell cell1: rejected (ComputeFilter)" in output
    assert "As of now" in output


@pytest.mark.parametrize("later", ["ctl", "ctl2"])
def test_the_latest_decision_of_all_schedulers_on_an_instance_is_told(run, config, later):
    with contextlib.ExitStack() as stack:
        for host in ("ctl", "ctl2"):
            trace = make_trace()
            trace.decision.request_id = f"req-{host}"
            trace.decision.time = time_text(20.0 if host == later else 10.0)
            stack.enter_context(serving(config, host, trace))
        asked = ("--scheduler", "ctl", "--scheduler", "ctl2", "-f", "json")
        for argv in (("decision", "i"), ("host", "h1", "--decision", "i")):
            answer = json.loads(run(*argv, *asked)[1])
            assert answer["scheduler"] == later


def test_decisions_are_listed(run, scheduler):
    _, output, _ = run("list", "-f", "json")
    assert [(one["request_id"], one["scheduler"]) for one in json.loads(output)] == [("req-1", "ctl")]
    assert "req-1" in run("list", "--failed")[1]
    assert "req-1" not in run("list", "--project", "other")[1]


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["decision", "req-9"], "No decision on req-9 is kept"),
        (["host", "h1", "--decision", "req-9"], "No decision on req-9 is kept"),
        (["host", "h8", "--decision", "req-1"], "No compute node"),
    ],
    ids=" ".join,
)
def test_what_is_not_known_has_its_own_exit_status(run, scheduler, argv, words):
    status, output, logged = run(*argv)
    assert (status, output) == (shown_command.UNKNOWN, "")
    assert words in logged


@pytest.mark.parametrize("argv", [["decision", "req-1"], ["list"]], ids=" ".join)
def test_without_schedulers_and_log_the_failure_is_one_line(run, argv):
    status, output, logged = run(*argv, "--timeout", "0.2")
    assert (status, output) == (app.NOT_RUN, "")
    assert "Scheduler ctl did not answer: no answer within 0.2 seconds" in logged
    assert "Traceback" not in logged


@pytest.mark.parametrize("argv", [["decision", "req-1"], ["list"]], ids=" ".join)
def test_a_broker_that_is_unavailable_is_named(run, config, argv):
    config.write_text(config.read_text().replace("fake://", "rabbit://u:secret@127.0.0.1:1/"))
    status, _, logged = run(*argv)
    assert status == app.NOT_RUN
    assert "RabbitMQ is unavailable: broker 127.0.0.1:1: [Errno 111] Connection refused" in logged
    assert "did not answer" not in logged
    assert "retrying" not in logged
    assert "secret" not in logged


def test_with_a_broker_that_is_unavailable_the_decision_log_is_read(run, config, log):
    text = config.read_text().replace("fake://", "rabbit://u:p@127.0.0.1:1/")
    config.write_text(f"{text}[berth]\ndecision_log = {log}\n")
    status, output, logged = run("decision", "req-1")
    assert status == 0
    assert "from the log" in output
    assert "RabbitMQ is unavailable" in logged


def test_an_error_of_a_scheduler_is_not_called_silence(run, config, trace, monkeypatch):
    monkeypatch.setattr(DecisionMemory, "find", lambda *_: 1 / 0)
    with serving(config, "ctl", trace):
        status, _, logged = run("decision", "req-1", "--scheduler", "ctl")
    assert status == app.NOT_RUN
    assert "Scheduler ctl answered with an error: " in logged
    assert "did not answer" not in logged


def test_a_decision_log_is_read_without_schedulers(run, log):
    status, output, _ = run("decision", "req-1", "--log", log)
    assert status == 0
    assert "from the log of decisions-1-1-1.jsonl" in output
    assert cells(output, "| RamFilter")[1:3] == ["2", "0"]
    assert "req-1" in run("list", "--log", log)[1]
    assert "rejected (ComputeFilter: " in run("host", "h1", "--decision", "i", "--log", log)[1]
    status, _, logged = run("host", "h9", "--decision", "i", "--log", log)
    assert status == shown_command.UNKNOWN
    assert "the host is not read now" in logged


def test_the_configured_decision_log_is_read_if_no_scheduler_knows_the_decision(run, config, log):
    config.write_text(config.read_text() + f"[berth]\ndecision_log = {log}\n")
    status, output, logged = run("decision", "req-1", "--timeout", "0.2")
    assert status == 0
    assert "from the log" in output
    assert "Scheduler ctl did not answer" in logged


def test_a_log_that_is_missing_is_one_line(run, tmp_path):
    status, _, logged = run("decision", "req-1", "--log", str(tmp_path / "missing"))
    assert status == app.NOT_RUN
    assert "Cannot read the decision log" in logged


@pytest.mark.parametrize(
    "argv",
    [["decision"], ["decision", "r", "--hosts", "-1"], ["list", "--since", "soon"], ["list", "--limit", "0"]],
    ids=" ".join,
)
def test_wrong_arguments(run, argv):
    assert run(*argv)[0] == app.NOT_RUN


def test_a_wrong_time_is_answered_with_the_format(run, capsys):
    run("list", "--since", "soon")
    assert "'soon' is neither an age such as 15m nor a time such as" in capsys.readouterr().err


def test_a_page_is_written_to_a_file_of_its_owner(run, log, tmp_path):
    path = tmp_path / "page.html"
    status, output, _ = run("decision", "req-1", "--log", log, "--html", str(path))
    assert status == 0
    assert output.startswith("Request req-1: build of i\n")
    assert "rejected only by RamFilter" in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize(
    "argv",
    [["list"], ["host", "h1"], ["host", "h1", "--decision", "req-1"], ["waiting"]],
    ids=" ".join,
)
def test_each_command_has_a_page(run, scheduler, tmp_path, argv):
    path = tmp_path / "page.html"
    status, output, _ = run(*argv, "--html", str(path), *PATIENT)
    assert status == 0
    page = Page(path.read_text())
    assert output.splitlines()[-1] in page.texts
    assert output.splitlines()[-1].endswith(f": {' '.join([*argv, *PATIENT])}")


def test_page_and_text_name_one_moment(run, scheduler, tmp_path, monkeypatch):
    seconds = itertools.count(1)
    clock = SimpleNamespace(now=lambda zone: datetime.fromtimestamp(next(seconds), zone))
    monkeypatch.setattr("scheduler.operators.shown.files.datetime", clock)
    path = tmp_path / "page.html"
    _, output, _ = run("list", "--html", str(path), *PATIENT)
    last = output.splitlines()[-1]
    assert last.startswith("1970-01-01 00:00:01 UTC, ")
    assert last in Page(path.read_text()).texts


def test_a_page_that_cannot_be_written_is_one_line(run, log, tmp_path):
    status, _, logged = run(
        "decision", "req-1", "--log", log, "--html", str(tmp_path / "missing" / "page.html")
    )
    assert status == app.NOT_RUN
    assert "Cannot write" in logged
    assert "Traceback" not in logged


def test_commands_have_reply_queues_of_their_own_also_where_daemons_have_fixed_names(config):
    config.write_text(config.read_text() + "[oslo_messaging_rabbit]\nuse_queue_manager = true\n")
    program = app.OperatorApp("berth-explain", "", {})
    program.options = SimpleNamespace(config_file=[str(config)], config_dir=[])
    program.prepare_to_run_command(SimpleNamespace(needs_conf=True))
    assert program.conf.oslo_messaging_rabbit.use_queue_manager is False


@pytest.mark.parametrize("words", ["90s", "1.5m", "2h", "1d"])
def test_ages_are_before_now(words):
    assert app.since(words) < app.since("0s")


def test_help_needs_no_configuration(capsys):
    output = io.StringIO()
    assert programs.explain(["--help"], stdout=output) == 0
    assert "usage: berth-explain" in output.getvalue() + capsys.readouterr().out


def test_a_table_for_a_narrow_terminal_breaks_no_id(run, scheduler):
    output = run("list", "--max-width", "60")[1]
    assert cells(output, "req-1")[1] == "req-1"
    assert cells(output, "| Time")[1] == "Request"


@pytest.mark.parametrize("output_format", ["table", "csv"])
def test_columns_can_be_chosen(run, scheduler, output_format):
    output = run("decision", "req-1", "-c", "Host", "-c", "Outcome", "-f", output_format)[1]
    line = next(line for line in output.splitlines() if "Outcome" in line)
    assert "Host" in line
    assert "Cell" not in line
