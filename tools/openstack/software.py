"""The virtual environments with OpenStack and with its clients, at the versions of the constraints here."""

from concurrent.futures import ThreadPoolExecutor
import os
from pathlib import Path
import shutil
import subprocess
import sys
import tempfile
import zlib

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
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=INSTALL_TIMEOUT,
            env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"OpenStack cannot be installed: no end after {INSTALL_TIMEOUT} s") from None
    if done.returncode:
        last = done.stdout.strip().rpartition("\n")[2]
        raise RuntimeError(f"OpenStack cannot be installed: {last or command}")
