"""The configuration files and their contents, known options or not, and the files that options name."""

from collections.abc import Iterator, Mapping
import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from oslo_config import cfg


def sections(conf: cfg.ConfigOpts) -> Iterator[tuple[str, Mapping[str, Mapping[str, list[str]]]]]:
    """Yield each file with its sections, in the order in which files are read.

    Yields:
        The path, and by name of a section the texts of its options. A file that cannot be read has none.
    """
    for path in _files(conf):
        yield path, _parsed(path)


def tls_file_problems(conf: cfg.ConfigOpts, group: str) -> Iterator[str]:
    """Yield a text for each certificate or key of Keystone's or the broker's clients that cannot be opened.

    Only files that are sure to be read count: those of authorities are read for HTTPS alone, which an
    endpoint of the catalog may use too, and the query of a transport URL overrides options.
    """
    options = conf[group]
    if group == "oslo_messaging_rabbit":
        names: tuple[str, ...] = ("ssl_ca_file", "ssl_cert_file", "ssl_key_file") if options.ssl else ()
        overridden = parse_qs(urlsplit(conf.transport_url).query)
    else:
        urls = options.endpoint_override, getattr(conf[options.auth_section or group], "auth_url", None)
        is_verified = not options.insecure and any(str(url).startswith("https:") for url in urls)
        names = ("certfile", "keyfile", *(["cafile"] if is_verified else []))
        overridden = {}
    for name in names:
        path = options[name]
        try:
            if path and name not in overridden:
                os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        except OSError as error:
            step = "correct the path, or let the user that runs Berth read the file"
            yield f"[{group}]/{name}: cannot open {path}: {error.strerror}; {step}"


def _files(conf: cfg.ConfigOpts) -> Iterator[str]:
    yield from conf.config_file
    for directory in conf.config_dir:
        yield from sorted(str(path) for path in Path(directory).expanduser().glob("*.conf"))


def _parsed(path: str) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(path, found).parse()
    except (OSError, cfg.ParseError, UnicodeDecodeError):
        return {}
    return found
