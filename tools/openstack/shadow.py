"""berth-shadow beside nova-scheduler while users call the API: what it would have chosen."""

import argparse
from datetime import UTC, datetime
import json
import time

from tools.openstack.api import Api
from tools.openstack.layout import Layout
from tools.openstack.programs import run_berth, show_audits
from tools.openstack.services import MODULES, Schedulers, Services
from tools.openstack.users import Users, table

START_TIMEOUT = 300
#: Seconds for which the shadow looks for the last choices of nova-scheduler.
LOOKS = 130
READY = "Receiving copies of requests"


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Let users work; return 1 if the shadow refused what was served, or cannot explain a choice."""
    Schedulers(layout).replace("nova")
    directory = layout.directory / "shadow"
    directory.mkdir(exist_ok=True)
    begun = datetime.now(UTC).isoformat()
    shadow = Services(layout)["berth-shadow"]
    before = shadow.text().count(READY) if shadow.log.exists() else 0
    shadow.start()
    try:
        # It takes copies once its mirror is filled, and the log is of all its lives
        shadow.wait_for_line(READY, START_TIMEOUT, times=before + 1)
        with Users(Api(layout), options.callers, options.seed, layout.zones) as users:
            users.phase = "berth-shadow runs"
            users.work()
            time.sleep(options.minutes * 60)
        time.sleep(LOOKS)
    finally:
        shadow.stop()
    for line in table(users.outcomes):
        print(line)
    words = ["report", "--directory", directory, "--since", begun, "-f", "json"]
    report = json.loads(run_berth(layout, MODULES["berth-shadow"], *words).stdout)
    counts = {line["verdict"]: line["count"] for line in report["lines"]}
    for line in report["lines"]:
        print(f"{line['count']:6}  {line['meaning']}")
    for each in report["differences"]:
        print(
            f"{each['request_id']}: {each['verdict']}, Berth {each['berth']}, nova-scheduler {each['nova']}"
        )
    print(f"{report['requests']} requests, {report['alike_percent']:.1f} % alike", flush=True)
    right = report["compared"] and not counts["berth-refused"] and not counts["other"]
    return 0 if show_audits(layout) and right else 1
