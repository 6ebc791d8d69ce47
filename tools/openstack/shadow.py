"""berth-shadow beside nova-scheduler while users call the API: what it would have chosen."""

import argparse
from datetime import UTC, datetime
import json
from pathlib import Path
import subprocess
import time
from typing import Any

from tools.openstack import load
from tools.openstack.audits import show_audits
from tools.openstack.layout import Layout
from tools.openstack.planned_cloud import say
from tools.openstack.schedulers import Schedulers
from tools.openstack.services import Service
from tools.rig.service import command_of, environment_of_berth

MODULE = "scheduler.operators.shadow.main"
START_TIMEOUT = 300
REPORT_TIMEOUT = 60
#: Seconds for which the shadow looks for the last choices of nova-scheduler.
LOOKS = 130


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Let users work; return 1 if the shadow refused what was served, or cannot explain a choice."""
    schedulers = Schedulers(layout)
    schedulers.replace("nova")
    directory = layout.directory / "shadow"
    directory.mkdir(exist_ok=True)
    begun = time.time()
    command = [*command_of(MODULE, schedulers.config_file), "run", "--directory", directory]
    shadow = Service(layout, "berth-shadow", command, environment_of_berth())
    before = shadow.text().count("Receiving copies of requests") if shadow.log.exists() else 0
    shadow.start()
    users = load.Users(layout, options.callers, options.seed)
    users.phase = "berth-shadow runs"
    try:
        # It takes copies once its mirror is filled, and the log is of all its lives
        shadow.wait_for_line("Receiving copies of requests", START_TIMEOUT, times=before + 1)
        users.start()
        time.sleep(options.minutes * 60)
        users.finish()
        time.sleep(LOOKS)
    finally:
        shadow.stop()
    for line in load.table(users.outcomes):
        say(line)
    report = _report(layout, directory, begun)
    counts = {line["verdict"]: line["count"] for line in report["lines"]}
    for line in report["lines"]:
        say(f"{line['count']:6}  {line['meaning']}")
    for each in report["differences"]:
        say(f"{each['request_id']}: {each['verdict']}, Berth {each['berth']}, nova-scheduler {each['nova']}")
    say(f"{report['requests']} requests, {report['alike_percent']:.1f} % alike")
    right = report["compared"] and not counts["berth-refused"] and not counts["other"]
    return 0 if show_audits(layout) and right else 1


def _report(layout: Layout, directory: Path, since: float) -> dict[str, Any]:
    words = [
        "report",
        "--directory",
        str(directory),
        "--since",
        datetime.fromtimestamp(since, UTC).isoformat(),
    ]
    command = [*command_of(MODULE, Schedulers(layout).config_file), *words, "-f", "json"]
    done = subprocess.run(
        list(map(str, command)),
        env=environment_of_berth(),
        capture_output=True,
        text=True,
        check=False,
        timeout=REPORT_TIMEOUT,
    )
    if done.returncode:
        raise RuntimeError(f"berth-shadow report ends with {done.returncode}: {done.stderr[-1000:]}")
    return json.loads(done.stdout)
