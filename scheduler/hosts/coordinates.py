"""The integer coordinates of the host table and of views. Each is valid in its own place only.

=================  =========================================================================================
``TableRow``       the number of a row in one host table
``ViewPosition``   the place of a host in the root view of a request; it names the host in the whole request
``ViewIndex``      the place of a host in one narrowed view
``Code``           the number of a distinct value in one encoded column
=================  =========================================================================================

The plural types are arrays of them: int64 of shape (hosts,) for rows and positions, int32 for codes.
"""

from typing import NewType

import numpy as np
from numpy.typing import NDArray

TableRow = NewType("TableRow", int)
ViewPosition = NewType("ViewPosition", int)
ViewIndex = NewType("ViewIndex", int)
Code = NewType("Code", int)

TableRows = NewType("TableRows", NDArray[np.int64])
ViewPositions = NewType("ViewPositions", NDArray[np.int64])
Codes = NewType("Codes", NDArray[np.int32])
