"""Options of Berth's own groups that do not exist, as a misspelt one would have no effect and no message."""

from collections.abc import Iterator
from difflib import get_close_matches

from oslo_config import cfg

from scheduler.conf import partitions
from scheduler.conf.berth import GROUP, OPTS
from scheduler.conf.files import sections

_CLOSE = 0.75

_KNOWN = {option.dest for option in OPTS}
_KNOWN_OF_PARTITION = {option.dest for option in partitions.OPTS}


def misspelt_options(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Yield a line for each unknown option of Berth's groups, and for each group whose name is close to them.

    Groups and options of others are not looked at: one nova.conf serves several services.
    """
    for path, groups in sections(conf):
        for group, names in groups.items():
            known = _known(group)
            if known is not None:
                yield from (
                    _remark(path, group, name, known) for name in names if name.replace("-", "_") not in known
                )
            elif group not in conf and (meant := _meant(group)):
                yield f"{path}: the group [{group}] does not exist and is ignored; did you mean [{meant}]?"


def _known(group: str) -> set[str] | None:
    """Return the options of a group; None if it is none of Berth's."""
    if group.lower() == GROUP:
        return _KNOWN
    return _KNOWN_OF_PARTITION if group.lower().startswith(partitions.PREFIX) else None


def _meant(group: str) -> str:
    """Return the name that a group was probably meant to have; "" if it is none of Berth's."""
    if get_close_matches(group.lower(), [GROUP], cutoff=_CLOSE):
        return GROUP
    begin, _, name = group.lower().replace("-", "_").rpartition("_")
    close = name and get_close_matches(f"{begin}_", [partitions.PREFIX], cutoff=_CLOSE)
    return f"{partitions.PREFIX}{name}" if close else ""


def _remark(path: str, group: str, name: str, known: set[str]) -> str:
    close = get_close_matches(name.replace("-", "_"), known, n=1, cutoff=0.6)
    hint = f"; did you mean {close[0]}?" if close else ""
    return f"{path}: [{group}]/{name} does not exist and is ignored{hint}"
