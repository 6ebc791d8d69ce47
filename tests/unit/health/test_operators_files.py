"""Dashboard, alert rules and systemd unit agree with the code."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

from scheduler.health import catalogue

ROOT = pathlib.Path(__file__).resolve().parents[3]
ALERTS = yaml.safe_load((ROOT / "etc/berth-alerts.yml").read_text())
DASHBOARD = json.loads((ROOT / "etc/berth-dashboard.json").read_text())
UNIT = ROOT / "etc/berth-scheduler.service"
TROUBLESHOOT = (ROOT / "doc/source/troubleshoot.rst").read_text()

RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = {
    **{rule["alert"]: [rule["expr"]] for rule in RULES},
    **{panel["title"]: [target["expr"] for target in panel["targets"]] for panel in PANELS},
}

#: What prometheus-client says of each process, as far as it is used.
OF_PROCESS = ("start_time_seconds", "cpu_seconds_total", "resident_memory_bytes")

#: What a scrape adds to every series.
SCRAPED = {"job", "instance"}

SELECTOR = re.compile(r"\b(up|(?:berth|process)_\w+)(?:\{([^}]*)\})?")
GROUPING = re.compile(r"\b(?:by|without|ignoring|group_left|group_right|on) ?\(([^)]*)\)")


def series():
    """Series name -> the labels that it has, as a query sees them."""
    found = {"up": set()} | {f"process_{name}": set() for name in OF_PROCESS}
    for metric in catalogue.METRICS:
        names = [metric.series]
        if metric.buckets:
            names = [f"{metric.name}_sum", f"{metric.name}_count"]
            found[f"{metric.name}_bucket"] = {*metric.labels, "le"}
        found |= {name: set(metric.labels) for name in names}
    return found


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_expressions_name_series_labels_and_values_that_exist(where):
    known = series()
    values = {metric.series: metric.values for metric in catalogue.METRICS}
    for expression in EXPRESSIONS[where]:
        used = SELECTOR.findall(expression)
        assert used, expression
        labels = set().union(*(known.get(name, set()) for name, _ in used)) | SCRAPED
        for name, matchers in used:
            assert name in known, f"{name} in {expression}"
            for label, value in re.findall(r'(\w+)[=!~]+"([^"]*)"', matchers):
                assert label in known[name] | SCRAPED, f"{label} of {name}"
                if values.get(name) and label not in SCRAPED:
                    assert set(value.split("|")) <= set(values[name]), f"{value} of {name}"
        for grouping in GROUPING.findall(expression):
            assert set(filter(None, re.split(r"[, ]+", grouping))) <= labels, expression


@pytest.mark.parametrize("where", EXPRESSIONS)
def test_brackets_are_balanced(where):
    pairs = {")": "(", "]": "[", "}": "{"}
    for expression in EXPRESSIONS[where]:
        stack = []
        for each in expression:
            if each in pairs.values():
                stack.append(each)
            elif each in pairs:
                assert stack, expression
                assert stack.pop() == pairs[each], expression
        assert not stack, expression


def test_promtool_reads_all_expressions(tmp_path):
    """Grafana's variables are replaced by what it puts in their place."""
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed")
    rules = [
        {"record": f"panel:number_{number}", "expr": expression.replace("$__rate_interval", "5m")}
        for number, expression in enumerate(each for panel in PANELS for each in EXPRESSIONS[panel["title"]])
    ]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
    for file in (ROOT / "etc/berth-alerts.yml", path):
        done = subprocess.run(
            ["promtool", "check", "rules", str(file)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_is_in_the_dashboard():
    text = json.dumps(DASHBOARD)
    assert [metric.name for metric in catalogue.METRICS if metric.name not in text] == []


def test_the_dashboard_can_be_imported():
    numbers = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(numbers)) == len(numbers)
    titles = [panel["title"] for panel in PANELS]
    assert len(set(titles)) == len(titles)
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24, panel["title"]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_alert_says_how_bad_it_is_and_what_to_do(rule):
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"]["summary"]
    name = rule["alert"]
    assert f"\n{name}\n{'-' * len(name)}\n" in TROUBLESHOOT
    labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
    aggregations = re.findall(r"\b(?:sum|max|min)(?: by \(([^)]*)\))?", rule["expr"])
    if aggregations:
        assert all(labels <= set(re.split(r", ", kept)) for kept in aggregations), "labels that are summed up"


def test_the_sandbox_of_the_unit_scores_below_2():
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=19", str(UNIT)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-300:] + done.stderr


def test_the_unit_names_what_the_daemon_tells():
    text = UNIT.read_text()
    for setting in ("Type=notify", "WatchdogSec=60", "RestartPreventExitStatus=2", "KillMode=mixed"):
        assert f"\n{setting}\n" in text, setting


def test_the_unit_of_the_router_is_the_same_but_for_its_names():
    router = (ROOT / "etc/berth-router.service").read_text().splitlines()
    differing = [line for line in UNIT.read_text().splitlines() if line not in router]
    assert [line.partition("=")[0] for line in differing if not line.startswith("#")] == [
        "Description",
        "ExecStart",
        "RuntimeDirectory",
    ]
    assert "ExecStart=/opt/berth/bin/berth-router --config-file /etc/nova/nova.conf" in router


def test_what_operators_use_is_in_the_package():
    shipped = (ROOT / "setup.cfg").read_text()
    for name in (
        "berth-scheduler.service",
        "berth-router.service",
        "berth-dashboard.json",
        "berth-alerts.yml",
    ):
        assert f"        etc/{name}\n" in shipped, name


def test_each_alert_links_its_paragraph_of_the_documents():
    for rule in RULES:
        url = rule["annotations"]["runbook_url"]
        assert url.rpartition("/")[2] == f"troubleshoot.html#{rule['alert'].lower()}"
        assert rule["alert"] in TROUBLESHOOT


def test_the_job_of_prometheus_asks_as_the_endpoint_wants_it():
    (job,) = yaml.safe_load((ROOT / "etc/berth-prometheus.yml").read_text())["scrape_configs"]
    assert job["job_name"] == "berth"  # as in the alerts
    assert job["scheme"] == "https"
    assert "credentials_file" in job["authorization"]
    monitor = yaml.safe_load((ROOT / "deploy/openstack-helm/pod-monitor.yaml").read_text())
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert (endpoint["scheme"], endpoint["path"]) == ("https", "/metrics")
