"""The plans of the documentation: what berth-plan says of one cloud, as text and as pictures of its pages."""

from collections.abc import Iterator, Sequence
from pathlib import Path
import re
import shutil
import subprocess
from typing import NamedTuple

from tools.rig.service import ROOT
from tools.worked_cases.cloud import run_commands
from tools.worked_cases.plan_cloud import PlanCloud

DIRECTORY = ROOT / "doc" / "source" / "plans"

HOSTS, INSTANCES = 24, 220

#: The width of tables, and the size of pictures.
WIDTH = 118
PICTURE = "900,560"

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")

#: Seconds that all commands may take.
PATIENCE = 600

#: What differs from day to day.
VARYING = (
    re.compile(r"\d{4}-\d\d-\d\d(T[\d:.+]+| [\d:]+ UTC)?"),
    re.compile(r"(?<=Berth )\d[\w.+]*"),
    re.compile(r"\b\d+ ms\b"),
    re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"),
)


class Case(NamedTuple):
    """One plan: the name of its files, the command, and lines that are shown of its output; None: all."""

    name: str
    command: str
    lines: int | None = None


CASES = (
    Case("drain", "drain cmp-00000 cmp-00002", 24),
    Case("drain-commands", "drain cmp-00000 --commands", 22),
    Case("survive", "survive --by aggregate:rack*"),
    Case("survive-hosts", "survive", 14),
    Case("survive-all", "survive --all --by aggregate:rack*"),
    Case("balance", "balance --moves 5"),
    Case("balance-pack", "balance --goal pack --moves 20", 16),
    Case("capacity", "capacity --flavor c16"),
    Case("capacity-all", "capacity --all"),
    Case("policy", "policy --set ram_weight_multiplier=-1 --last 40", 26),
    Case("rule-failure-domain", "policy --set berth.failure_domain_weight_multiplier=10 --last 220", 13),
    Case(
        "rule-free-share",
        "policy --set berth.free_share_weight_multiplier=1 --set ram_weight_multiplier=0"
        " --set cpu_weight_multiplier=0 --set disk_weight_multiplier=0 --last 60",
        16,
    ),
    Case(
        "rule-keep-room",
        "policy --set berth.keep_room_for=c16=16:65536:160"
        " --set berth.keep_room_weight_multiplier=10 --last 60",
        14,
    ),
    Case("rule-leaving-host", "policy --set berth.leaving_host_weight_multiplier=10000000 --last 60", 13),
    Case("dry-run", "dry-run --flavor c16 --az az1 --count 2"),
)


def run(directory: Path) -> Iterator[tuple[Case, str, Path]]:
    """Make each plan; yield it with what is printed, and the file of its page."""
    with PlanCloud(directory, HOSTS, INSTANCES) as cloud:
        pages = [directory / f"{case.name}.html" for case in CASES]
        found = planned(cloud.config_file, pages)
    for case, page, (status, output) in zip(CASES, pages, found, strict=True):
        yield case, printed(case, status, output), page


def planned(config_file: Path, pages: Sequence[Path]) -> list[tuple[int, str]]:
    """Return exit status and output of each command; they run one after the other in one process."""
    argvs = []
    for case, page in zip(CASES, pages, strict=True):
        wide = "" if "--commands" in case.command else f"--max-width {WIDTH}"
        command = f"berth-plan --config-file {config_file} {case.command} --html {page} {wide}"
        argvs.append(command.split())
    return run_commands(argvs, PATIENCE)


def printed(case: Case, status: int, output: str) -> str:
    """Return the command as operators write it, and what it prints."""
    if status not in {0, 3}:
        raise RuntimeError(f"berth-plan {case.command} ends with status {status}")
    lines = output.splitlines()
    if case.lines is not None and len(lines) > case.lines:
        lines = [*lines[: case.lines], "..."]
    last = [f"[exit status {status}]"] if status else []
    return "\n".join([f"$ berth-plan {case.command}", *lines, *last]) + "\n"


def normalised(text: str) -> str:
    """Return what a plan tells, without what differs from day to day."""
    for pattern in VARYING:
        text = pattern.sub("VARYING", text)
    return text


def picture(page: Path, target: Path) -> None:
    """Take a picture of a page with a browser, if there is one."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return
    options = ["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1"]
    command = [browser, *options, f"--window-size={PICTURE}", f"--screenshot={target}", page.as_uri()]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)


def write(directory: Path, target: Path) -> None:
    """Write the texts of all plans, and the pictures of those pages that the documentation shows."""
    target.mkdir(parents=True, exist_ok=True)
    for case, text, page in run(directory):
        (target / f"{case.name}.txt").write_text(text)
        if (target / f"{case.name}.png").exists():
            picture(page, target / f"{case.name}.png")
