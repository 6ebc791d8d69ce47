"""OpenStack's own tests of its API, first with nova-scheduler, then with Berth; each must pass with both."""

import argparse
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
import contextlib
import csv
import io
import os
from pathlib import Path
import re
import signal
from string import Template
import subprocess
from typing import Any

from tools.openstack.api import Api
from tools.openstack.configuration import TEMPLATES
from tools.openstack.layout import Layout
from tools.openstack.programs import environment, show_audits
from tools.openstack.services import Schedulers

#: Seconds that tempest waits for a server; the machine may be busy.
BUILD_TIMEOUT = 600
TESTS = Path(__file__).parent / "tempest_tests"
SETS = ("scheduler", "compute", "short")
PASSED = {"success", "xfail"}
#: Tests that need what no guest of a fake driver has, or an agent of Neutron.
EXCLUDED = TESTS / "excluded.txt"

Results = Mapping[str, str]


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Run tests with each scheduler, and compare; return 1 if one passed with nova-scheduler only."""
    results: dict[str, Results] = {}
    clean = True
    for name in options.schedulers:
        kept = layout.directory / "tempest" / f"{options.tests}-{name}.csv"
        Schedulers(layout).replace(name)
        print(f"Running the tests of {options.tests} with {name}", flush=True)
        results[name] = run(layout, options, kept)
        print(summary(name, results[name]), flush=True)
        clean = show_audits(layout) and clean
    for line in compare(results):
        print(line)
    missing = unmatched(patterns(options.tests), set().union(*results.values()))
    for line in missing:
        print(f"no test matches {line}")
    return 0 if clean and all(results.values()) and not missing and not regressions(results) else 1


def patterns(tests: str) -> list[str]:
    """Return the regular expressions of a set."""
    lines = (TESTS / f"{tests}.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def run(layout: Layout, options: argparse.Namespace, kept: Path) -> Results:
    """Run the tests of a set, keep the results as CSV, and return the status of each.

    Raises:
        RuntimeError: They do not end in time.
    """
    workspace = layout.directory / "tempest"
    configure(layout, workspace)
    variables = {
        **environment(),
        "TEMPEST_CONFIG_DIR": str(workspace),
        "TEMPEST_CONFIG": "tempest.conf",
        "PYTHON": layout.program("python", "client"),  # stestr's name for the Python of its tests
        "PATH": f"{layout.software / 'client' / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
    }

    def output(*words: str, given: bytes = b"") -> bytes:
        more: dict[str, Any] = {"cwd": workspace, "env": variables, "input": given, "timeout": 300}
        return subprocess.run(words, capture_output=True, check=False, **more).stdout

    if not (workspace / ".stestr").exists():
        output("stestr", "init")
    log = kept.with_suffix(".txt")
    command = ["tempest", "run", "--concurrency", str(options.concurrency)]
    command += ["--include-list", str(TESTS / f"{options.tests}.txt"), "--exclude-list", str(EXCLUDED)]
    with log.open("w") as file:
        process = subprocess.Popen(
            command,
            cwd=workspace,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        process.wait(options.minutes * 60)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"the tests do not end in time; they have written {log}") from None
    finally:
        # It leaves the processes of its tests behind if it is interrupted
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    last = output("stestr", "last", "--subunit")
    text = output("subunit2csv", "--no-passthrough", given=last).decode()
    kept.write_text(text)
    return read(text)


def configure(layout: Layout, workspace: Path) -> None:
    """Write the configuration of tempest for a cloud, and that of what runs its tests."""
    workspace.mkdir(exist_ok=True)
    api = Api(layout)
    images = {each.name: each.id for each in api.cloud.image.images()}
    values = {
        "workspace": workspace,
        "password": layout.password,
        "identity": layout.url("identity"),
        "image_ref": images["guest"],
        "image_ref_alt": images["guest-alt"],
        "flavor_ref": api.flavors["nano"],
        "flavor_ref_alt": api.flavors["micro"],
        "public_network": api.cloud.network.find_network("public", ignore_missing=False).id,
        "build_timeout": BUILD_TIMEOUT,
    }
    text = Template((TEMPLATES / "tempest.conf").read_text()).substitute(values)
    (workspace / "tempest.conf").write_text(text)
    library = next((layout.software / "client" / "lib").glob("python3*")) / "site-packages"
    (workspace / ".stestr.conf").write_text(
        f"[DEFAULT]\ntest_path={library}/tempest/test_discover\ntop_dir={library}\n"
        "group_regex=([^\\.]*\\.)*\n"
    )


def read(text: str) -> Results:
    """Return the status of each test; a failed preparation of a class is named like one."""
    return {row["test"].partition("[")[0]: row["status"] for row in csv.DictReader(io.StringIO(text))}


def summary(name: str, results: Results) -> str:
    """Return how many tests have each status."""
    counts = Counter("passed" if status in PASSED else status for status in results.values())
    return f"{name}: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def regressions(results: Mapping[str, Results]) -> Sequence[str]:
    """Return the tests that passed with nova-scheduler only; without it, those that failed."""
    berth = results.get("berth", {})
    if "nova" not in results:
        return sorted(test for test, status in berth.items() if status not in {*PASSED, "skip"})
    passed = {test for test, status in results["nova"].items() if status in PASSED}
    return sorted(test for test in passed if berth and berth.get(test) not in PASSED)


def unmatched(patterns: Sequence[str], tests: Collection[str]) -> Sequence[str]:
    """Return the patterns that no test matches: a release of tempest may have renamed it."""
    return [each for each in patterns if not any(re.search(each, test) for test in tests)]


def compare(results: Mapping[str, Results]) -> Sequence[str]:
    """Return the summaries, and each test that did not pass with one of the schedulers."""
    lines = [summary(name, found) for name, found in results.items()]
    tests = sorted({test for found in results.values() for test in found})
    for test in tests:
        found = {name: each.get(test, "not run") for name, each in results.items()}
        if set(found.values()) - PASSED - {"skip"}:
            lines.append(f"{test}: " + ", ".join(f"{name} {status}" for name, status in found.items()))
    return lines
