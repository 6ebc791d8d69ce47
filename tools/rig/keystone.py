"""A Keystone whose tokens expire soon, on loopback."""

import base64
import os
from pathlib import Path
import secrets

import requests

from tools.rig.servers import Server, free_port
from tools.rig.software import Software

PORTS = range(28900, 29000)
REQUIREMENTS = ("keystone==30.0.0", "PyMySQL", "gunicorn")
PASSWORD = "secret"  # noqa: S105 - of a throw-away Keystone
START_TIMEOUT = 120
CONFIGURATION = """\
[database]
connection = sqlite:///{directory}/keystone.sqlite?timeout=60
[token]
expiration = {seconds}
allow_expired_window = 0
caching = false
[cache]
backend = oslo_cache.dict
[identity]
# As few as there may be: a hash takes longer than all the rest
password_hash_rounds = 4
[fernet_tokens]
key_repository = {directory}/fernet
[credential]
key_repository = {directory}/credentials
"""
GUNICORN = """\
bind = "127.0.0.1:{port}"
wsgi_app = "keystone.wsgi.api:application"
worker_class = "gthread"
threads = 8
timeout = 120
accesslog = "-"
"""
#: How a service logs in, in its own section.
CREDENTIALS = """\
auth_type = password
auth_url = {url}/v3
username = admin
password = {password}
project_name = admin
user_domain_id = default
project_domain_id = default
"""


class Keystone(Server):
    """A Keystone; ``start`` waits until it answers.

    Attributes:
        url: Its URL.
    """

    def __init__(self, software: Software, directory: Path, seconds: int) -> None:
        """Make its database and keys; tokens are valid for so many seconds."""
        directory.mkdir()
        self._keys = directory / "fernet"
        port = free_port(PORTS)
        self.url = f"http://127.0.0.1:{port}"
        path = directory / "keystone.conf"
        path.write_text(CONFIGURATION.format(directory=directory, seconds=seconds))
        environment = {**os.environ, "OS_KEYSTONE_CONFIG_DIR": str(directory), "PYTHONWARNINGS": "ignore"}
        manage = ["keystone-manage", "--config-file", str(path)]
        keys = ["--keystone-user", "root", "--keystone-group", "root"]
        software.run(*manage, "db_sync", environment=environment)
        software.run(*manage, "fernet_setup", *keys, environment=environment)
        software.run(*manage, "credential_setup", *keys, environment=environment)
        interfaces = [f"--bootstrap-{kind}-url={self.url}/v3" for kind in ("admin", "internal", "public")]
        password = f"--bootstrap-password={PASSWORD}"
        software.run(*manage, "bootstrap", password, *interfaces, environment=environment)
        # Not on the command line: Keystone reads that as its own
        serve = directory / "gunicorn.py"
        serve.write_text(GUNICORN.format(port=port))
        environment["GUNICORN_CMD_ARGS"] = f"--config {serve}"
        super().__init__([software.program("gunicorn")], directory / "keystone.log", environment)

    def start(self) -> None:
        """Start it, also again."""
        super().start()
        self.wait_until(self._answers, "Keystone does not answer", START_TIMEOUT)

    def replace_keys(self) -> None:
        """Make all tokens invalid at once, as rotations of the keys that come too fast."""
        for path in list(self._keys.iterdir()):
            new = self._keys.with_name("new-key")
            new.write_bytes(base64.urlsafe_b64encode(secrets.token_bytes(32)))
            new.chmod(0o600)
            new.rename(path)

    def tokens(self) -> int:
        """Return how many tokens it was asked for so far."""
        return self.text().count('"POST /v3/auth/tokens')

    @property
    def credentials(self) -> str:
        """The options by which a service logs in."""
        return CREDENTIALS.format(url=self.url, password=PASSWORD)

    def _answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/v3", timeout=5).ok
        except requests.RequestException:
            return False
