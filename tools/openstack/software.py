"""The virtual environments with OpenStack and with its clients, at the versions of the constraints here."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
import shutil
import sys
import tempfile
import zlib

from tools.openstack.programs import run

HERE = Path(__file__).parent
PLUGINS = HERE / "plugins"
#: What each environment is asked for; the constraints pin what comes with it.
REQUIREMENTS = {
    "cloud": ("keystone", "glance", "openstack-placement", "neutron", "nova", "gunicorn", "PyMySQL"),
    "client": ("tempest", "python-openstackclient", "osc-placement"),
}
INSTALL_TIMEOUT = 900


def make(directory: Path) -> None:
    """Make the environments that are missing or are made of other versions.

    Raises:
        RuntimeError: OpenStack cannot be installed; the text has the last line that pip printed.
    """
    directory.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: _make(directory / name, name), REQUIREMENTS))


def _make(environment: Path, name: str) -> None:
    constraints = HERE / f"constraints-{name}.txt"
    plugins = [*sorted(PLUGINS.rglob("*.py")), PLUGINS / "pyproject.toml"] if name == "cloud" else []
    sources = [constraints, *plugins]
    made_of = f"{zlib.crc32(b''.join(path.read_bytes() for path in sources))} {REQUIREMENTS[name]}"
    stamp = environment / ".ready"
    if stamp.exists() and stamp.read_text() == made_of:
        return
    print(f"Making {environment} with {', '.join(REQUIREMENTS[name])}; this takes minutes", flush=True)
    pip = [str(environment / "bin" / "python"), "-m", "pip", "-q", "install"]
    if not environment.exists():
        _run(sys.executable, "-m", "venv", str(environment))
        _run(*pip, "--upgrade", "pip")
    _run(*pip, "-c", str(constraints), *REQUIREMENTS[name])
    if name == "cloud":
        with tempfile.TemporaryDirectory() as copy:  # where it may leave what it builds
            shutil.copytree(PLUGINS, copy, dirs_exist_ok=True)
            _run(*pip, "--no-deps", "--force-reinstall", copy)
    stamp.write_text(made_of)


def _run(*command: str) -> None:
    try:
        run(*command, timeout=INSTALL_TIMEOUT)
    except RuntimeError as error:
        last = str(error).strip().rpartition("\n")[2]
        raise RuntimeError(f"OpenStack cannot be installed: {last}") from None
