"""What each process of the daemon sets for itself: its name, and how its memory is looked after."""

import contextlib
import ctypes
import gc
from pathlib import Path
import sys

#: Objects created between two runs of the garbage collector. A request creates tens of thousands and releases
#: them. With the default of 700 the collector would traverse all host data at every second request.
COLLECT_AFTER = 10_000


def show_program_name() -> None:
    """Make the name of the process that of the program again, by which probes and operators look for it.

    cotyledon sets a title, and with it the name: to the first 15 characters of the title, with its colon.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(Path(sys.argv[0]).name[:15])


def spare_the_collector() -> None:
    """Keep the garbage collector from traversing objects that live until the process ends, also at that end.

    What was freed so far is returned to the system: loading the hosts leaves holes of 9 KiB a host, which the
    C library keeps. Others than GNU's have no such call.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER)
    with contextlib.suppress(AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
