"""The stand-ins as processes of their own."""

import warnings

from oslo_service import backend

# futurist imports eventlet if it is installed; it is not used
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")
# before oslo.messaging is imported, which would choose eventlet
backend.init_backend(backend.BackendType.THREADING)
