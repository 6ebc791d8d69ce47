"""What every test needs before anything of ours is imported, and in which order several processes take the files."""

import os
import threading

from oslo_service import backend
import pytest

from tests.integration.interop.nova_process import NovaProcess
from tests.support import campaigns
from tests.support.clock import Clock
from tests.support.waiting import eventually

# Of each process that is started, a sixth of the time to import went into eventlet's copy of dnspython
os.environ.setdefault("EVENTLET_NO_GREENDNS", "yes")

# oslo.messaging takes oslo.service's default, eventlet, unless somebody chose before it was imported; and that
# may be another conftest, before pytest_configure is called
backend.init_backend(backend.BackendType.THREADING)

#: Files, or beginnings of their names, that share what takes long to start: one process runs all of a group.
GROUPS = {
    "cluster": (  # of three RabbitMQ servers
        "tests/integration/rpc/test_fail_over.py",
        "tests/integration/rpc/test_tls.py",
        "tests/integration/stream/test_fail_over.py",
    ),
    "nova": ("tests/integration/interop/", "tests/recorded/"),
    "sources": tuple(
        f"tests/unit/test_{name}.py"
        for name in ("citations", "documentation", "imports", "log_lines", "named_code", "plain_words")
    ),
}

#: In the names of threads that work and log on after a test: those of an open transport or database.
#: A library's are not among them that only keep a connection: what they log is left out of ``caplog``.
AT_WORK = ("(poll)", "connection-watch")

#: Beginnings of the names of loggers of libraries whose threads may outlive a test.
LIBRARIES = ("amqp", "kombu", "oslo.messaging", "oslo_messaging")


def pytest_addoption(parser):
    parser.addoption(
        "--campaign-seed", type=int, help="run campaigns, with random inputs drawn from this number"
    )


def pytest_configure(config):
    from futurist import _thread

    # Whoever ends a server of oslo.messaging waits as long for each of its idle threads; by default a second
    _thread.ThreadWorker.MAX_IDLE_FOR = 0.05
    campaigns.load_profile(in_campaign=config.getoption("--campaign-seed") is not None)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(scope="session")
def nova():
    """A process of an installed nova, whose Python BERTH_NOVA_PYTHON names."""
    python = os.environ.get("BERTH_NOVA_PYTHON")
    if not python:
        (pytest.fail if os.environ.get("CI") else pytest.skip)("BERTH_NOVA_PYTHON is not set")
    with NovaProcess(python) as process:
        yield process


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell each process where the servers are that it shares with the others."""
    if not hasattr(node.config, "shared_servers"):
        from tests.support.shared_servers import SharedServers

        node.config.shared_servers = SharedServers()
        node.config.add_cleanup(node.config.shared_servers.close)
    node.workerinput["shared_servers"] = node.config.shared_servers.address


@pytest.fixture(scope="session")
def campaign_seed(request):
    """The seed of the campaign; 0 in the suite."""
    return request.config.getoption("--campaign-seed") or 0


def pytest_collection_modifyitems(config, items):
    """Leave out campaigns, or all but these; with several processes, put the files first that wait longest for servers.

    The many quick ones come last, so that all processes end together.
    """
    in_campaign = config.getoption("--campaign-seed") is not None
    run, left_out = [], []
    for item in items:
        (run if campaigns.is_run(item, in_campaign=in_campaign) else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = run
    if not hasattr(config, "workerinput"):
        return
    files = {}
    for item in items:
        files.setdefault(item.nodeid.partition("::")[0], []).append(item)
    items[:] = [item for _, of_file in sorted(files.items(), key=_rank) for item in of_file]


def _rank(file_and_items):
    file, items = file_and_items
    slow = any(item.get_closest_marker("slow") for item in items)
    return _group(file) not in GROUPS, not slow, "/integration/" not in file


def _group(file):
    return next((name for name, files in GROUPS.items() if file.startswith(files)), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """With ``--dist loadfile``, files are taken in the order above, and those of a group as if they were one."""
    from xdist.scheduler import LoadFileScheduling

    class FileScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            return _group(super()._split_scope(nodeid))

    if config.getvalue("dist") != "loadfile":
        return None
    config.option.loadscopereorder = False
    return FileScheduling(config, log)


@pytest.fixture
def caplog(caplog):
    """What was logged, without what libraries say.

    Their threads may still be at work for an earlier test, and many tests count lines.
    """

    def of_tests(record):
        return not record.name.startswith(LIBRARIES)

    caplog.handler.addFilter(of_tests)
    yield caplog
    caplog.handler.removeFilter(of_tests)


@pytest.fixture(scope="module", autouse=True)
def no_thread_is_left():
    """Fail if a module leaves threads that would work, log and format errors while others are tested."""
    before = set(threading.enumerate())
    yield
    assert eventually(lambda: not _left(before), 20), (
        f"a transport or a database is left open: {_left(before)}"
    )


def _left(before):
    names = [thread.name for thread in threading.enumerate() if thread not in before]
    return [name for name in names if any(part in name for part in AT_WORK)]
