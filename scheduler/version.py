"""Which Berth this is."""

import importlib.metadata

DISTRIBUTION = "berth-scheduler"
UNKNOWN = "0+unknown"


def version():
    """The installed version; ``UNKNOWN`` for a source tree that was never installed."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN


class ReportVersion:
    """The version in the form that oslo.reports asks for."""

    def vendor_string(self):
        """Who makes it."""
        return "Berth"

    def product_string(self):
        """What it is."""
        return DISTRIBUTION

    def version_string_with_package(self):
        """Its version."""
        return version()
