"""berth-router: the daemon before the partitions of a cloud. Exit status as that of berth-scheduler."""

from __future__ import annotations

from collections.abc import Sequence
import sys
from typing import TYPE_CHECKING

from scheduler.cmd import scheduler

if TYPE_CHECKING:
    from oslo_config.cfg import ConfigOpts

    from scheduler.daemon.parts import ServiceParts


def main(argv: Sequence[str] | None = None) -> int | None:
    """Run the daemon.

    Returns:
        The exit status.
    """
    return scheduler.main(argv, parts)


def parts(_conf: ConfigOpts) -> ServiceParts:
    """Return the parts of a router; they are imported here, after threads were chosen."""
    from scheduler.cmd import router_parts

    return router_parts.all_parts()


if __name__ == "__main__":
    sys.exit(main())
