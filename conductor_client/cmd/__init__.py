"""One module a command: each of the stand-ins as a process of its own."""

from oslo_service import backend

# oslo.messaging takes oslo.service's default, eventlet, unless somebody chose before it is imported
backend.init_backend(backend.BackendType.THREADING)
