"""One module a command: each of the stand-ins as a process of its own."""

import warnings

from oslo_service import backend

# a library imports eventlet where it finds it, though nobody here uses it
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
# oslo.messaging takes oslo.service's default, eventlet, unless somebody chose before it is imported
backend.init_backend(backend.BackendType.THREADING)
