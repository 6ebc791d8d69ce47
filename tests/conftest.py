"""What every test needs before anything of ours is imported."""

from hypothesis import settings
from oslo_service import backend

# oslo.messaging takes oslo.service's default, eventlet, unless somebody chose before it was imported; and that
# may be another conftest, before pytest_configure is called
backend.init_backend(backend.BackendType.THREADING)


def pytest_configure():
    # several runs share the machines of CI: how long an example takes says nothing
    settings.register_profile("berth", deadline=None, max_examples=100)
    settings.load_profile("berth")
