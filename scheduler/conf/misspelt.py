"""Options of ``[berth]`` that do not exist, as a misspelt one would have no effect and no message."""

from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path

from oslo_config import cfg

from scheduler.conf.berth import GROUP, OPTS

_CLOSE = 0.75


def misspelt_options(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield a line for each unknown option of ``[berth]``, and for each group whose name is close to it.

    Groups and options of others are not looked at: one nova.conf serves several services.
    """
    known = {option.dest for option in OPTS}
    for path in _files(conf):
        for group, names in _parsed(path).items():
            if group.lower() == GROUP:
                yield from (
                    _remark(path, name, known) for name in names if name.replace("-", "_") not in known
                )
            elif group not in conf and get_close_matches(group.lower(), [GROUP], cutoff=_CLOSE):
                yield f"{path}: the group [{group}] does not exist and is ignored; did you mean [{GROUP}]?"


def _remark(path: str, name: str, known: set[str]) -> str:
    close = get_close_matches(name.replace("-", "_"), known, n=1, cutoff=0.6)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{path}: [{GROUP}]/{name} does not exist and is ignored{hint}"


def _files(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield the configuration files in the order in which they are read."""
    yield from conf.config_file
    for directory in conf.config_dir:
        yield from sorted(str(path) for path in Path(directory).expanduser().glob("*.conf"))


def _parsed(path: str) -> dict[str, dict[str, list[str]]]:
    sections: dict[str, dict[str, list[str]]] = {}
    try:
        cfg.ConfigParser(path, sections).parse()
    except (OSError, cfg.ParseError):
        return {}
    return sections
