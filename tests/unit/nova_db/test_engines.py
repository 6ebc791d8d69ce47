from contextlib import nullcontext
import traceback

from oslo_db.exception import DBConnectionError, DBError
import pytest
from sqlalchemy.engine import make_url

from scheduler import conf as options
from scheduler.bounds.circuit_breaker import FIRST_PROBE, CircuitOpen
from scheduler.errors import ConfigError
from scheduler.nova_db import engines
from scheduler.nova_db.engines import Engines, make_engine, normalised, refusal_in
from tests.support.clock import Clock


@pytest.fixture
def conf():
    conf = options.new()
    conf([], default_config_files=[])
    return conf


@pytest.mark.parametrize(
    ("absent", "url", "expected"),
    [
        ([], "mysql://u:p@h/d", "mysql+pymysql"),
        (["pymysql"], "mysql://u:p@h/d", "mysql+mysqldb"),
        ([], "postgresql://h/d", "postgresql+psycopg2"),
        (["psycopg2"], "postgresql://h/d", "postgresql+psycopg"),
        (["psycopg2", "psycopg"], "postgresql://h/d", "postgresql"),
        ([], "mysql+mysqlconnector://h/d", "mysql+mysqlconnector"),
        ([], "sqlite:///x.db", "sqlite"),
    ],
)
def test_a_url_without_driver_gets_one_that_is_there(monkeypatch, absent, url, expected):
    monkeypatch.setattr(engines, "find_spec", lambda name: None if name in absent else object())
    assert normalised(url) == make_url(url).set(drivername=expected)


@pytest.mark.parametrize(
    ("url", "limits"),
    [
        ("mysql+pymysql://h/d", {"connect_timeout": "3", "read_timeout": "3", "write_timeout": "3"}),
        (
            "mysql+pymysql://h/d?read_timeout=90",
            {"connect_timeout": "3", "read_timeout": "90", "write_timeout": "3"},
        ),
        ("postgresql+psycopg2://h/d", {"connect_timeout": "3", "tcp_user_timeout": "2500"}),
        ("sqlite:///x.db", {"timeout": "2.5"}),
    ],
)
def test_waits_for_a_database_are_bounded(conf, url, limits):
    assert dict(make_engine(url, conf.database, 2.5).url.query) == limits


def test_engines_use_the_options_of_their_group(conf):
    conf.set_override("connection", "mysql+pymysql://h/d", "api_database")
    conf.set_override("max_pool_size", 7, "api_database")
    conf.set_override("max_pool_size", 3, "database")
    conf.set_override("connection_parameters", "charset=utf8mb4", "api_database")
    made = Engines(conf)
    assert made.api().pool.size() == 7
    assert made.api().url.query["charset"] == "utf8mb4"
    assert made.api().pool.timeout() == 10
    assert made.cell("c1", "mysql+pymysql://h/c1").pool.size() == 3
    conf.set_override("pool_timeout", 4, "database")
    assert made.cell("c2", "mysql+pymysql://h/c2").pool.timeout() == 4


def test_engines_are_kept_until_they_are_disposed(conf):
    conf.set_override("connection", "sqlite://", "database")
    made = Engines(conf)
    local, cell = made.local(), made.cell("c1", "sqlite://")
    assert made.local() is local
    assert made.cell("c1", "sqlite://") is cell
    assert cell is not local
    assert made.cell("c1", "sqlite:///other.db") is not cell
    made.dispose()
    assert made.local() is not local


@pytest.mark.parametrize("group", ["api", "local"])
def test_without_a_connection_there_is_no_engine(conf, group):
    with pytest.raises(ConfigError, match="connection is not set"):
        getattr(Engines(conf), group)()


@pytest.mark.parametrize("url", ["nonsense", "", "odd://h/d", "mysql+odd://h/d", "mysql+pymysql://h:port/d"])
def test_a_url_without_a_known_driver_is_refused(conf, url):
    with pytest.raises(ConfigError, match="cannot be used"):
        make_engine(url, conf.database, 1.0)


@pytest.mark.parametrize(
    "url",
    [
        "mysql+odd://nova:verysecret@h/d",
        "nova:verysecret@h/d",
        "mysql+pymysql//nova:verysecret@h/d",
        "mysql+pymysql://nova:half@half:verysecret@h:3306/d",
        "mysql+pymysql://nova:verysecret@h:port/d",
        "mysql+pymysql://nova:s3cret@secret@h/d",
        "mysql+pymysql://nova:s3cret@pa/secret@h/d",
        "mysql+pymysql://nova:s3cret@pa?secret@h/d",
        "postgresql://nova:s3cret@secret@h:5432/d",
    ],
)
def test_errors_do_not_show_passwords(conf, url):
    conf.set_override("connection", url, "api_database")
    with pytest.raises(ConfigError, match=r"^\[api_database\]/connection cannot be used: ") as caught:
        Engines(conf).check()
    assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "url",
    [
        "mysql+pymysql://nova:pa%40ss@h/d",
        "mysql+pymysql://nova@tenant:pa/ss=@h/d",
        "mysql+pymysql://nova:secret@h/d?unix_socket=/run/a@b",
        "sqlite:////tmp/a@b/nova.db",
        "mysql+pymysql://h/d",
    ],
)
def test_an_at_sign_that_belongs_to_no_password_is_no_mistake(conf, url):
    assert make_engine(url, conf.database, 1.0).url.database in {"d", "/tmp/a@b/nova.db"}


def test_options_that_are_not_set_are_not_checked(conf):
    Engines(conf).check()
    conf.set_override("connection", "odd://h/d", "database")
    with pytest.raises(ConfigError, match=r"\[database\]/connection"):
        Engines(conf).check()


@pytest.mark.parametrize("parameter", ["bogus=1", "charset=nonsense", "connect_timeout=-1"])
def test_a_parameter_that_the_driver_does_not_know_is_an_error_without_secrets(conf, parameter):
    engine = make_engine(f"mysql+pymysql://nova:verysecret@127.0.0.1:1/d?{parameter}", conf.database, 1.0)
    with pytest.raises(ConfigError, match="does not take") as caught:
        engine.connect()
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["mysql+pymysql", "postgresql+psycopg2"])
def test_an_api_database_to_which_no_connection_can_be_made_is_left_out(conf, scheme):
    conf.set_override("connection", f"{scheme}://nova:secret@127.0.0.1:1/nova", "api_database")
    made = Engines(conf)
    for expected in (DBConnectionError, CircuitOpen):
        with pytest.raises(expected), made.api_connection():
            pass


@pytest.mark.parametrize("failure", [DBConnectionError(), DBError()], ids=["away", "refused"])
def test_whether_the_api_database_answers_is_what_its_last_use_has_shown(conf, tmp_path, failure):
    conf.set_override("connection", f"sqlite:///{tmp_path}/api.sqlite", "api_database")
    clock = Clock()
    made = Engines(conf, clock)
    assert made.api_answers is None
    for broken in (False, True, False):
        clock.now += FIRST_PROBE
        with pytest.raises(DBError) if broken else nullcontext(), made.api_connection():
            if broken:
                raise failure
        assert made.api_answers is not broken


def test_a_call_of_an_outage_that_ends_after_it_says_nothing_of_the_api_database(conf, tmp_path):
    conf.set_override("connection", f"sqlite:///{tmp_path}/api.sqlite", "api_database")
    clock = Clock()
    made = Engines(conf, clock)

    def fail_late():
        with made.api_connection():
            clock.now += 1
            with made.api_connection():
                pass
            raise DBConnectionError

    with pytest.raises(DBConnectionError):
        fail_late()
    assert made.api_answers is True


class Refusal(Exception):
    """As a driver of PostgreSQL raises it."""

    pgcode = "42501"


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (OSError(1045, "Access denied for user 'nova'@'h' (using password: YES)"), "Access denied"),
        (
            OSError(1142, "SELECT command denied to user 'nova'@'h' for table 'cell_mappings'"),
            "SELECT command",
        ),
        (Refusal("permission denied for table cell_mappings"), "permission denied"),
        (ValueError('connection failed: FATAL:  password authentication failed for user "nova"'), "FATAL:"),
        (ValueError("FATAL:  the database system is starting up"), None),
        (ValueError("FATAL:  sorry, too many clients already"), None),
        (OSError(2003, "Can't connect to MySQL server"), None),
        (OSError(1040, "Too many connections"), None),
    ],
)
def test_a_missing_right_is_told_from_an_outage(error, found):
    wrapped = RuntimeError("wrapped")
    wrapped.__cause__ = error
    refusal = refusal_in(wrapped)
    assert found in refusal if found else not refusal
