import importlib.metadata

from scheduler import version


def test_the_installed_version(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: f"{name} 1.2")
    assert version.version() == "berth-scheduler 1.2"
    assert version.ReportVersion().version_string_with_package() == "berth-scheduler 1.2"


def test_a_source_tree_that_is_not_installed(monkeypatch):
    def version_of(name):
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", version_of)
    assert version.version() == version.UNKNOWN
