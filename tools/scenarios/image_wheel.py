"""The wheel under several versions of Python, and the source archive that builds the same wheel."""

from pathlib import Path
import shutil
import sys

from tools.rig.debian import run_program
from tools.rig.service import ROOT
from tools.scenarios.image_steps import Image

#: Commands that must start; each imports what it needs.
COMMANDS = ("berth-scheduler", "berth-router", "berth-status", "berth-explain", "berth-plan", "berth-shadow")
TOOLS = ("build", "twine", "pbr", "setuptools", "wheel")


def build(steps: Image) -> None:
    """Build wheel and source archive, and check them."""
    steps.show.step("6 The wheel and the source archive")
    directory = steps.directory / "dist"
    run_program(["git", "clone", "-q", str(ROOT), str(steps.directory / "clone")])
    stamp = run_program(["git", "log", "-1", "--format=%ct"], cwd=ROOT).strip()
    python = _environment(steps.directory / "tools", Path(sys.executable))
    run_program([str(python), "-m", "pip", "install", "-q", *TOOLS])
    variables = ["env", f"SOURCE_DATE_EPOCH={stamp}"]
    build = [*variables, str(python), "-m", "build", "--no-isolation"]
    run_program([*build, "--sdist", "--outdir", str(directory), str(steps.directory / "clone")])
    run_program([*build, "--wheel", "--outdir", str(directory), str(steps.directory / "clone")])
    (wheel,) = directory.glob("*.whl")
    (archive,) = directory.glob("*.tar.gz")
    checked = run_program([str(python), "-m", "twine", "check", "--strict", *map(str, (wheel, archive))])
    for line in checked.splitlines():
        steps.show.say(line.replace(f"{directory}/", ""))
    unpacked = steps.directory / "unpacked"
    shutil.unpack_archive(archive, unpacked, filter="data")
    (source,) = unpacked.iterdir()
    run_program([*build, "--wheel", "--outdir", str(unpacked), str(source)])
    (again,) = unpacked.glob("*.whl")
    same = again.read_bytes() == wheel.read_bytes()
    steps.expect(True, same, "The source archive builds the same wheel")


def install(steps: Image) -> None:
    """Install the wheel under each Python."""
    (wheel,) = (steps.directory / "dist").glob("*.whl")
    for number, each in enumerate((Path(sys.executable), *steps.options.python)):
        _install(steps, wheel, each, steps.directory / f"python-{number}")


def _install(steps: Image, wheel: Path, python: Path, directory: Path) -> None:
    program = _environment(directory, python)
    constraints = ["-c", str(ROOT / "constraints.txt")]
    run_program([str(program), "-m", "pip", "install", "-q", "--only-binary=:all:", *constraints, str(wheel)])
    version = run_program([str(program), "--version"]).strip()
    for command in COMMANDS:
        run_program([str(directory / "bin" / command), "--help"], cwd=steps.directory)
    run_program([str(program), "-m", "pip", "check"])
    steps.show.say(f"{version}: installed with constraints.txt; {len(COMMANDS)} commands start.")
    shutil.rmtree(directory)


def _environment(directory: Path, python: Path) -> Path:
    run_program([str(python), "-m", "venv", str(directory)])
    return directory / "bin" / "python"
