"""What every test needs before anything of ours is imported."""

from hypothesis import settings
from oslo_service import backend


def pytest_configure():
    # oslo.messaging takes oslo.service's default, eventlet, unless somebody chose before it was imported
    backend.init_backend(backend.BackendType.THREADING)
    # several runs share the machines of CI: how long an example takes says nothing
    settings.register_profile("berth", deadline=None, max_examples=100)
    settings.load_profile("berth")
