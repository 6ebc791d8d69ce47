from oslo_config import cfg
import pytest

from scheduler.conf import keystone
from scheduler.placement.errors import PlacementAuthFailure
from scheduler.placement.session import POOL_SIZE, Timeouts, make_adapter

URL = "http://placement.example"
PASSWORD = {
    "auth_type": "password",
    "auth_url": "http://keystone.example/v3",
    "username": "nova",
    "password": "secret",
    "project_name": "service",
    "user_domain_id": "default",
    "project_domain_id": "default",
}


@pytest.fixture
def load(tmp_path):
    def load(other="", **options):
        file = tmp_path / "nova.conf"
        lines = [f"{name} = {value}" for name, value in options.items()]
        file.write_text("\n".join(["[placement]", *lines, other]))
        conf = cfg.ConfigOpts()
        keystone.register(conf)
        conf([], default_config_files=[str(file)], default_config_dirs=[])
        return conf

    return load


@pytest.fixture
def adapter(load):
    sessions = []

    def adapter(*args, **options):
        adapter = make_adapter(load(*args, **options))
        sessions.append(adapter.session.session)
        return adapter

    yield adapter
    for session in sessions:
        session.close()


@pytest.mark.parametrize(
    "options",
    [
        {"auth_type": "none", "endpoint": URL},
        {"auth_type": "none", "endpoint_override": URL},
        {"auth_type": "none", "endpoint": "http://other.example", "endpoint_override": URL},
        {"auth_type": "admin_token", "endpoint": URL, "token": "admin"},
        {"auth_type": "admin_token", "token": "admin", "endpoint_override": URL},
    ],
)
def test_without_keystone(adapter, options):
    made = adapter(**options)
    assert made.get_token() == "admin"
    assert made.get_endpoint() == URL


def test_password(adapter):
    made = adapter(**PASSWORD, region_name="r1", connect_retries=3, status_code_retries=2)
    assert made.session.auth.auth_url == PASSWORD["auth_url"]
    assert (made.service_type, made.interface, made.region_name) == (
        "placement",
        ["internal", "public"],
        "r1",
    )
    assert (made.connect_retries, made.status_code_retries, made.raise_exc) == (3, 2, False)


def test_auth_section(adapter):
    section = "\n".join(["[keystone]", *[f"{name} = {value}" for name, value in PASSWORD.items()]])
    made = adapter(section, auth_section="keystone")
    assert made.session.auth.auth_url == PASSWORD["auth_url"]


def test_versions_are_ignored(adapter):
    made = adapter(**PASSWORD, version="2", min_version="1", max_version="3")
    assert (made.version, made.min_version, made.max_version) == (None, None, None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"auth_type": "no_such_plugin"},
        {"auth_type": "none", "endpoint": URL, "valid_interfaces": "private"},
    ],
)
def test_useless_options(load, options):
    with pytest.raises(PlacementAuthFailure, match=r"\[placement\]"):
        make_adapter(load(**options))


def test_no_request_waits_for_ever(adapter):
    assert adapter(auth_type="none", endpoint=URL).session.timeout == Timeouts().read
    assert adapter(auth_type="none", endpoint=URL, timeout=3).session.timeout == 3.0


@pytest.mark.parametrize(
    ("option", "timeouts"), [(None, Timeouts(10.0, 15.0, 60.0)), (0, Timeouts()), (4, Timeouts(4, 4, 4))]
)
def test_timeouts(option, timeouts):
    assert Timeouts.of(option) == timeouts


def test_connections_for_many_threads(adapter):
    session = adapter(auth_type="none", endpoint=URL).session.session
    transport = session.get_adapter(URL)
    assert transport.get_connection_with_tls_context is not None
    assert transport.poolmanager.connection_pool_kw["maxsize"] == POOL_SIZE
