from tests.integration.placement_fixtures import (  # noqa: F401 - fixtures
    candidates,
    claimer,
    client,
    cloud,
    connect,
    instance,
    proxy,
)
