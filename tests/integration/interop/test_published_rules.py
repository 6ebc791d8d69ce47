"""Filters and weighers that operators have published for nova run unchanged where nova is installed next to Berth."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
import json
import pathlib
import subprocess
import sys
import threading

import pytest

from tests.builders import uuid_of
from tests.integration.interop.nova_process import ENVIRONMENT

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

HERE = pathlib.Path(__file__).parent
PUBLISHED = HERE / "published"

CONF = """
[DEFAULT]
transport_url = fake://
state_path = {directory}
[oslo_concurrency]
lock_path = {directory}
[api_database]
connection = sqlite:///{directory}/api.sqlite
[database]
connection = sqlite:///{directory}/cell0.sqlite
[placement]
auth_type = none
endpoint_override = {placement}
[filter_scheduler]
available_filters = nova.scheduler.filters.all_filters
{available}
enabled_filters = ComputeFilter, {enabled}
weight_classes = nova.scheduler.weights.all_weighers{weighers}
[zone_of_operator]
refused_hosts = h3
"""

FILTERS = {
    "FailureDomainFilter": {"h1": False, "host2": False, "h3": True},
    "ZoneSpreadFilter": {"h1": False, "host2": False, "h3": True},
    "MappedHypervisorFilter": {"h1": True, "host2": True, "h3": False},
    "LiveMigratableFilter": {"h1": True, "host2": False, "h3": True},
    "StrictExtraSpecsFilter": {"h1": True, "host2": True, "h3": True},
    "LargestAggregateFilter": {"h1": True, "host2": True, "h3": False},
}
OWN_FILTER = {"RefusedHostFilter": {"h1": True, "host2": True, "h3": False}}

WEIGHTS = {
    "IdleWeigher": {"h1": 1.0, "host2": 0.0, "h3": 0.5},
    "AcceleratorWeigher": {"h1": 0.0, "host2": 0.5, "h3": 1.0},
    "FewerStacksWeigher": {"h1": 1.0, "host2": 1 / 3, "h3": 2 / 3},  # nova's class has 0 as least value
}
OWN_WEIGHER = {"NameLengthWeigher": {"h1": 0.0, "host2": 1.0, "h3": 0.0}}

ACCELERATORS = {uuid_of("host2"): 4, uuid_of("h3"): 8}


VERSIONS = {
    "versions": [
        {
            "id": "v1.0",
            "status": "CURRENT",
            "min_version": "1.0",
            "max_version": "1.39",
            "links": [{"rel": "self", "href": ""}],
        }
    ]
}


def inventories_of(provider):
    total = ACCELERATORS.get(provider)
    return {"inventories": {"FPGA": {"total": total}} if total else {}}


class Inventories(BaseHTTPRequestHandler):
    """What nova's client reads of a provider in Placement."""

    def do_GET(self):
        body = json.dumps(VERSIONS if self.path == "/" else inventories_of(self.path.split("/")[2])).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments):
        pass


@pytest.fixture(scope="module")
def placement():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Inventories)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def configure(
    directory, placement, name="nova.conf", filters=FILTERS, weighers=WEIGHTS, prefix="operator_rules"
):
    """Write a nova.conf that names published rules; return its path."""
    path = directory / name
    path.write_text(
        CONF.format(
            directory=directory,
            placement=placement,
            available="\n".join(f"available_filters = {prefix}.{each}" for each in filters),
            enabled=", ".join([*filters, *OWN_FILTER] if prefix == "operator_rules" else filters),
            weighers="".join(f", {prefix}.{each}" for each in weighers),
        )
    )
    return path


@pytest.fixture(scope="module")
def cloud(tmp_path_factory, placement, nova):
    """The directory of a cloud whose databases nova has made."""
    directory = tmp_path_factory.mktemp("cloud")
    described = [
        {
            "name": name,
            "nodename": name,
            "uuid": uuid_of(name),
            "vcpus": vcpus,
            "memory_mb": 4096,
            "local_gb": 100,
        }
        for name, vcpus in (("h1", 64), ("host2", 32), ("h3", 16))
    ]
    cell = {"database": f"sqlite:///{directory}/cell1.sqlite", "transport": "fake://", "hosts": described}
    (directory / "cells.json").write_text(json.dumps({"cell1": cell}))
    path = configure(directory, placement, "plain.conf", filters=[], weighers=[], prefix="")
    nova.run("published_cloud", path, directory / "cells.json", nova.empty)
    return directory


@pytest.fixture(scope="module")
def packages(tmp_path_factory, nova):
    """Where nova is installed, with two modules of an operator in its package."""
    (installed,) = nova.python.parent.parent.glob("lib/python3.*/site-packages")
    root = tmp_path_factory.mktemp("packages")
    copied = ("nova", "nova/scheduler", "nova/scheduler/filters", "nova/scheduler/weights")
    for folder in copied:
        (root / folder).mkdir()
        for entry in (installed / folder).iterdir():
            if f"{folder}/{entry.name}" not in copied and entry.name != "__pycache__":
                (root / folder / entry.name).symlink_to(entry)
    (root / "nova/scheduler/filters/zone_of_operator.py").symlink_to(PUBLISHED / "zone_of_operator.py")
    (root / "nova/scheduler/weights/order_of_operator.py").symlink_to(PUBLISHED / "order_of_operator.py")
    return [root, installed]


def ask(path, *directories):
    command = [sys.executable, HERE / "published_berth.py", path, PUBLISHED, *directories]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100, env=ENVIRONMENT)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def answers(cloud, placement, packages):
    return ask(configure(cloud, placement), *packages)


@pytest.mark.parametrize("name", [*FILTERS, *OWN_FILTER])
def test_a_published_filter_decides_as_with_nova(answers, name):
    assert answers["filters"][name] == {**FILTERS, **OWN_FILTER}[name]


@pytest.mark.parametrize("name", [*WEIGHTS, *OWN_WEIGHER])
def test_a_published_weigher_weighs_as_with_nova(answers, name):
    assert answers["weights"][name] == pytest.approx({**WEIGHTS, **OWN_WEIGHER}[name])


def test_an_explicit_path_inside_nova_s_package_is_found_too(tmp_path, placement, packages):
    path = configure(
        tmp_path,
        placement,
        filters=[],
        weighers=["NameLengthWeigher"],
        prefix="nova.scheduler.weights.order_of_operator",
    )
    path.write_text(path.read_text().replace("nova.scheduler.weights.all_weighers, ", ""))
    assert ask(path, *packages)["weights"] == OWN_WEIGHER
