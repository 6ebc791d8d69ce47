"""Virtual hosts of RabbitMQ that belong to one run of the demo: made at its start, removed at its end."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
import os
import re
import secrets
import shutil
import subprocess
from urllib import parse

import kombu

SCHEMES = ("rabbit", "amqp")


def check(url: str) -> str:
    """Return the URL of a RabbitMQ if it can be used.

    Raises:
        ValueError: It cannot; the text says why, without the password.
    """
    try:
        split = parse.urlsplit(url)
        port = split.port
    except ValueError:
        raise ValueError("the URL cannot be read; special characters must be percent-encoded") from None
    if split.scheme not in SCHEMES or not split.hostname or port == 0:
        raise ValueError("a URL such as rabbit://user:password@host:5672/ is needed")
    if not split.username:
        raise ValueError("the URL names no user, such as rabbit://user:password@host:5672/")
    return url


def sibling(url: str, name: str) -> str:
    """Return the URL of a cell's virtual host: ``/berth-cell1`` for ``/``, ``/x-cell1`` for ``/x``."""
    split = parse.urlsplit(url)
    base = split.path.strip("/") or "berth"
    return split._replace(path=f"/{base}-{name}").geturl()


def of_run(url: str, run: str | None = None) -> str:
    """Return the URL of a virtual host of this run, whatever virtual host ``url`` names."""
    return parse.urlsplit(url)._replace(path=f"/berth-demo-{run or secrets.token_hex(4)}").geturl()


@contextmanager
def made(urls: Iterable[str]) -> Iterator[None]:
    """Make the virtual hosts of these URLs, and remove them with all their queues in the end.

    Raises:
        RuntimeError: They cannot be made or reached; those that were made are removed.
    """
    done: list[str] = []
    try:
        for url in urls:
            split = parse.urlsplit(url)
            name = _name(url)
            _control(f"make virtual host {name}", "add_vhost", name)
            done.append(name)
            user = parse.unquote(split.username or "")
            _control(f"give user {user} rights", "set_permissions", "-p", name, user, ".*", ".*", ".*")
            _check_answer(url)
        yield
    finally:
        for name in done:
            _control(f"remove virtual host {name}", "delete_vhost", name)


def _name(url: str) -> str:
    return parse.unquote(parse.urlsplit(url).path[1:])


def _control(what: str, *command: str) -> None:
    program = shutil.which("rabbitmqctl", path=_path())
    if not program:
        raise RuntimeError(f"Cannot {what}: rabbitmqctl is not installed on this machine")
    done = subprocess.run([program, "-q", *command], check=False, capture_output=True, text=True)
    if done.returncode:
        said = " ".join((done.stderr or done.stdout).split()) or "no reason given"
        raise RuntimeError(f"Cannot {what}: {said[:300]}")


def _path() -> str:
    return os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])


def _check_answer(url: str) -> None:
    address = re.sub("^rabbit://", "amqp://", url)
    connection = kombu.Connection(address, connect_timeout=5)
    try:
        with connection:
            connection.connect()
    except (OSError, kombu.exceptions.OperationalError, *connection.connection_errors) as error:
        raise RuntimeError(f"RabbitMQ cannot be reached at {_masked(url)}: {error}") from None


def _masked(url: str) -> str:
    split = parse.urlsplit(url)
    return f"{split.hostname}:{split.port or 5672}{split.path}"
