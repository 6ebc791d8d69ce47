"""The contents of the configuration files, known options or not."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from oslo_config import cfg


def sections(conf: cfg.ConfigOpts) -> Iterator[tuple[str, Mapping[str, Mapping[str, list[str]]]]]:
    """Yield each file with its sections, in the order in which files are read.

    Yields:
        The path, and by name of a section the texts of its options. A file that cannot be read has none.
    """
    for path in _files(conf):
        yield path, _parsed(path)


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
