"""Each command as a process, on the in-memory bus."""

import signal
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

COMMANDS = ("super_conductor", "cell_conductor", "fake_compute")
CONFIGURATION = """\
[DEFAULT]
transport_url = fake://
[api_database]
connection = sqlite://
[placement]
auth_type = none
endpoint_override = http://127.0.0.1:9
[conductor_client]
api_transport_url = fake://
"""


def command(name, *arguments):
    return [sys.executable, "-W", "ignore", "-m", f"conductor_client.cmd.{name}", *arguments]


@pytest.mark.parametrize("name", COMMANDS)
def test_serves_until_asked_to_stop(tmp_path, name):
    path = tmp_path / "nova.conf"
    path.write_text(CONFIGURATION)
    process = subprocess.Popen(command(name, "--config-file", path), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == f"berth-{name.replace('_', '-')} is ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.parametrize("name", COMMANDS)
def test_says_what_is_wrong_with_its_options(tmp_path, name):
    path = tmp_path / "nova.conf"
    path.write_text("[scheduler]\nmax_attempts = many\n")
    done = subprocess.run(
        command(name, "--config-file", path), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert "max_attempts" in done.stderr
    assert "Traceback" not in done.stderr
