"""What programs import until they take requests, for the process that they are forked off; see ``forked``."""

import importlib
import warnings

from oslo_service import backend

warnings.simplefilter("ignore")
backend.init_backend(backend.BackendType.THREADING)  # before oslo.messaging is imported, as the daemon does

for name in (
    "conductor_client.cmd.stand_ins",
    "placement.deploy",
    "scheduler.cmd.router",
    "scheduler.cmd.scheduler",
    "scheduler.operators.shadow.commands",
    "scheduler.daemon.guru_meditation",
    "scheduler.daemon.service",
    "scheduler.stream.decision_stream",
    "tools.rig.placement",
):
    try:
        importlib.import_module(name)
    except ImportError as error:  # the process that forks would ignore it, and import nothing that follows
        raise RuntimeError(f"{name} cannot be imported before the fork") from error
