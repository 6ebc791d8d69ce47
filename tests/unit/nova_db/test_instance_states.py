"""Whether somebody still waits for an instance, by the tables of nova."""

import pytest
import sqlalchemy as sa

from scheduler.nova_db.cells import CELL0, Cells
from scheduler.nova_db.engines import Engines
from scheduler.nova_db.instance_states import InstanceStates
from scheduler.nova_db.scatter_gather import CellCalls
from scheduler.nova_db.schema import build_requests, cell_mappings, instance_mappings, instances
from scheduler.request.instance_state import InstanceState
