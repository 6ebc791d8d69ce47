"""nova-scheduler replaced by Berth, by another revision of Berth, and back, while users call the API."""

import argparse
import itertools
from pathlib import Path
import sys
import tarfile
import tempfile

from tools.openstack.api import Api
from tools.openstack.layout import Layout
from tools.openstack.programs import environment, run, show_audits
from tools.openstack.services import Schedulers
from tools.openstack.users import Users, table
from tools.rig.service import ROOT

#: Seconds until enough operations have ended in one phase.
PATIENCE = 900


def main(layout: Layout, options: argparse.Namespace) -> int:
    """Run all phases; return 1 if a call failed or an audit finds something."""
    schedulers = Schedulers(layout)
    way = ["nova", "berth", "nova"]
    if options.revision:
        make_revision(layout, options.revision)
        way = ["nova", "berth", "other-berth", "berth", "nova"]
    schedulers.replace(way[0])
    with Users(Api(layout), options.callers, options.seed, layout.zones) as users:
        users.phase = f"{way[0]} serves"
        users.work()
        users.wait_for_more(options.operations, PATIENCE)
        for before, after in itertools.pairwise(way):
            users.phase = f"{after} replaces {before}"
            print(users.phase, flush=True)
            schedulers.replace(after)
            users.wait_for_more(1, PATIENCE)
            users.phase = f"{after} serves" + (" again" if after in way[: way.index(before)] else "")
            users.wait_for_more(options.operations, PATIENCE)
    for line in table(users.outcomes):
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
    place = layout.software / "other-berth"
    name = run("git", "-C", ROOT, "rev-parse", "--verify", f"{revision}^{{commit}}").stdout.strip()
    stamp = place / ".revision"
    if stamp.exists() and stamp.read_text() == name:
        return
    print(f"Installing Berth {name[:8]} into {place}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        archive, source = Path(directory, "berth.tar"), Path(directory, "source")
        run("git", "-C", ROOT, "archive", "--output", archive, name)
        with tarfile.open(archive) as file:
            file.extractall(source, filter="data")
        run(sys.executable, "-m", "venv", "--clear", place)
        pip = [place / "bin" / "python", "-m", "pip", "-q", "install", "-c", source / "constraints.txt"]
        run(*pip, source, variables=environment(PBR_VERSION="0.0.1"))
    stamp.write_text(name)
