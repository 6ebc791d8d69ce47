"""Virtual hosts of RabbitMQ that belong to one run of the demo: made at its start, removed at its end."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
import ipaddress
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
from urllib import parse

import kombu
import psutil

SCHEMES = ("rabbit", "amqp")

#: Seconds that a command of rabbitmqctl may take.
TIMEOUT = 60


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
    if not _is_this_machine(split.hostname):
        raise ValueError(
            f"{split.hostname} is not this machine; virtual hosts are made and removed with rabbitmqctl, "
            "which works on the broker of this machine only"
        )
    return url


def _is_this_machine(host: str) -> bool:
    """Return whether all addresses of a host are addresses of this machine."""
    own = {address.address for found in psutil.net_if_addrs().values() for address in found}
    try:
        found = {str(address[0]) for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return all(each in own or ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in found)


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
        RuntimeError: They cannot be made, reached or removed; all that can be removed are.
    """
    done: list[str] = []
    try:
        for url in urls:
            name = _name(url)
            done.append(name)  # before it is made: a signal may come in between
            try:
                _control(f"make virtual host {name}", "add_vhost", name)
            except RuntimeError:
                done.remove(name)
                raise
            user = parse.unquote(parse.urlsplit(url).username or "")
            _control(f"give user {user} rights", "set_permissions", "-p", name, user, ".*", ".*", ".*")
            _check_answer(url)
        yield
    finally:
        with _signals_ignored():
            _remove(done)


def _remove(names: Iterable[str]) -> None:
    failed = []
    for name in names:
        try:
            _control(f"remove virtual host {name}", "delete_vhost", name)
        except RuntimeError as error:
            failed.append(f"{error}. Remove it: rabbitmqctl delete_vhost {name}")
    if failed:
        raise RuntimeError("; ".join(failed))


@contextmanager
def _signals_ignored() -> Iterator[None]:
    """Ignore SIGTERM and SIGINT, which may come twice: ``timeout`` signals a process, then its group."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _name(url: str) -> str:
    return parse.unquote(parse.urlsplit(url).path[1:])


def _control(what: str, *command: str) -> None:
    program = shutil.which("rabbitmqctl", path=_path())
    if not program:
        raise RuntimeError(f"Cannot {what}: rabbitmqctl is not installed on this machine")
    try:
        done = subprocess.run(
            [program, "-q", *command],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            start_new_session=True,  # a signal to the group of this process must not end it
        )
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"Cannot {what}: rabbitmqctl did not end within {TIMEOUT} seconds") from None
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
