"""Create virtual hosts in RabbitMQ, one for each cell."""

from collections.abc import Iterable
import shutil
import subprocess
from urllib import parse

import kombu


def sibling(url: str, name: str) -> str:
    """Return the URL of a cell's virtual host: ``/berth-cell1`` for ``/``, ``/x-cell1`` for ``/x``."""
    split = parse.urlsplit(url)
    base = split.path.strip("/") or "berth"
    return split._replace(path=f"/{base}-{name}").geturl()


def ensure(urls: Iterable[str]) -> None:
    """Create the virtual hosts that do not exist; raise RuntimeError if that fails."""
    for url in urls:
        if not _answers(url):
            _add(parse.urlsplit(url))
            if not _answers(url):
                raise RuntimeError(f"RabbitMQ cannot be reached at {_masked(url)}")


def _answers(url):
    address = url.replace("rabbit://", "amqp://", 1)
    try:
        with kombu.Connection(address, connect_timeout=5) as connection:
            connection.connect()
    except (OSError, kombu.exceptions.OperationalError, *kombu.Connection(address).connection_errors):
        return False
    return True


def _add(split):
    name = parse.unquote(split.path[1:])
    if not shutil.which("rabbitmqctl"):
        raise RuntimeError(f"RabbitMQ has no virtual host {name} for user {split.username}; please add it")
    for command in (["add_vhost", name], ["set_permissions", "-p", name, split.username, ".*", ".*", ".*"]):
        subprocess.run(["rabbitmqctl", "-q", *command], check=False, capture_output=True)


def _masked(url):
    split = parse.urlsplit(url)
    return f"{split.hostname}:{split.port or 5672}{split.path}"
