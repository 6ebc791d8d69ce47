"""nova-scheduler replaced by Berth, by another revision of Berth, and back, while users call the API."""

import argparse
import itertools
import os
from pathlib import Path
import subprocess
import sys
import tarfile
import tempfile

from tools.openstack import load
from tools.openstack.audits import show_audits
from tools.openstack.layout import Layout
from tools.openstack.schedulers import Schedulers
from tools.rig.service import ROOT

#: Seconds until enough operations have ended in one phase.
PATIENCE = 900
INSTALL_TIMEOUT = 900


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Run all phases; return 1 if a call failed or an audit finds something."""
    schedulers = Schedulers(layout)
    way = ["nova", "berth", "nova"]
    if options.revision:
        make_revision(layout, options.revision)
        way = ["nova", "berth", "other-berth", "berth", "nova"]
    schedulers.replace(way[0])
    users = load.Users(layout, options.callers, options.seed)
    users.phase = f"{way[0]} serves"
    users.start()
    try:
        users.wait_for_more(options.operations, PATIENCE)
        for before, after in itertools.pairwise(way):
            users.phase = f"{after} replaces {before}"
            print(users.phase, flush=True)
            schedulers.replace(after)
            users.wait_for_more(1, PATIENCE)
            users.phase = f"{after} serves" + (" again" if after in way[: way.index(before)] else "")
            users.wait_for_more(options.operations, PATIENCE)
    finally:
        users.finish()
    for line in load.table(users.outcomes):
        print(line)
    failed = [each for each in users.outcomes if each.error]
    for each in failed:
        print(f"{each.operation} failed while {each.phase}: {each.error}")
    print(f"{len(users.outcomes)} operations, {len(failed)} failed", flush=True)
    return 0 if show_audits(layout) and not failed else 1


def make_revision(layout: Layout, revision: str) -> None:
    """Install another revision of this repository into an environment of its own.

    Raises:
        RuntimeError: git has no such revision, or pip fails.
    """
    environment = layout.software / "other-berth"
    name = _output("git", "-C", str(ROOT), "rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    stamp = environment / ".revision"
    if stamp.exists() and stamp.read_text() == name:
        return
    print(f"Installing Berth {name[:8]} into {environment}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        archive = Path(directory, "berth.tar")
        _output("git", "-C", str(ROOT), "archive", "--output", str(archive), name)
        with tarfile.open(archive) as file:
            file.extractall(Path(directory, "source"), filter="data")
        _output(sys.executable, "-m", "venv", "--clear", str(environment))
        pip = [str(environment / "bin" / "python"), "-m", "pip", "-q", "install"]
        source = str(Path(directory, "source"))
        _output(*pip, "-c", f"{source}/constraints.txt", source, environment={"PBR_VERSION": "0.0.1"})
    stamp.write_text(name)


def _output(*words: str, environment: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        words,
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=INSTALL_TIMEOUT,
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)} fails:\n{(done.stdout + done.stderr)[-2000:]}")
    return done.stdout
