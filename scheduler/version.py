"""The version of Berth."""

import importlib.metadata

DISTRIBUTION = "berth-scheduler"
UNKNOWN = "0+unknown"


def version() -> str:
    """Return the installed version; ``UNKNOWN`` for a source tree that is not installed."""
    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return UNKNOWN


class ReportVersion:
    """The version in the form that oslo.reports uses."""

    def vendor_string(self) -> str:
        """Return the vendor."""
        return "Berth"

    def product_string(self) -> str:
        """Return the product."""
        return DISTRIBUTION

    def version_string_with_package(self) -> str:
        """Return the version."""
        return version()
