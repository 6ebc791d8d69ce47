"""What a daemon imports until it takes requests, for the process that daemons are forked off; see ``forked``."""

import importlib
import warnings

from oslo_service import backend

warnings.simplefilter("ignore")
backend.init_backend(backend.BackendType.THREADING)  # before oslo.messaging is imported, as the daemon does

for name in (
    "scheduler.cmd.scheduler",
    "scheduler.daemon.options_trial",
    "scheduler.daemon.parts",
    "scheduler.guru_meditation",
    "scheduler.health.monitor",
    "scheduler.stream.decision_stream",
):
    importlib.import_module(name)
