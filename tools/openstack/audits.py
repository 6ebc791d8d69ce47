"""Both audits: that of Berth, and that of nova."""

from tools.openstack.layout import Layout
from tools.openstack.programs import Done, run, run_berth
from tools.openstack.schedulers import Schedulers
from tools.rig.service import ANY

#: Seconds until a record counts as settled: nothing is in progress when a scenario audits.
GRACE = 5
STATUS_MODULE = "scheduler.operators.programs berth-status"


def audit(layout: Layout) -> list[str]:
    """Return what berth-status audit and nova-manage placement audit find; empty: nothing."""
    nova = [layout.program("nova-manage"), "--config-file", Schedulers(layout).config_file]
    return [
        *_findings(
            "berth-status audit",
            run_berth(layout, STATUS_MODULE, "audit", "--grace", str(GRACE), allowed=ANY),
        ),
        *_findings("nova-manage placement audit", run(*nova, "placement", "audit", "--verbose", allowed=ANY)),
    ]


def show_audits(layout: Layout) -> bool:
    """Print what the audits find; return whether they find nothing."""
    found = audit(layout)
    for line in found or ["berth-status audit and nova-manage placement audit find nothing"]:
        print(line, flush=True)
    return not found


def _findings(name: str, done: Done) -> list[str]:
    if done.returncode == 0:
        return []
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return [f"{name} ends with status {done.returncode}:", *lines[-20:]]
