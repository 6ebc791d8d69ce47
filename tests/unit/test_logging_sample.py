"""etc/berth-logging.conf.sample shows the lines that the documentation tells operators to search for."""

import pathlib
import re

import pytest

from tests.support import forked
from tests.unit.cmd.test_scheduler import DATABASE

SAMPLE = pathlib.Path(__file__).resolve().parents[2] / "etc/berth-logging.conf.sample"

PROGRAM = """
import logging, sys
from scheduler.cmd import scheduler as command
command.prepare(command.read_options(sys.argv[1:]))
for name in ("nova.filters", "nova.scheduler.host_manager", "nova.scheduler.selection.ranking"):
    logging.getLogger(name).info("said by %s", name)
logging.getLogger("urllib3").info("chatter")
"""


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    """What a daemon logs that is set up by the sample."""
    path = tmp_path_factory.mktemp("etc") / "nova.conf"
    path.write_text(f"{DATABASE}[DEFAULT]\nlog_config_append={SAMPLE}\n")
    done = forked.run("-c", PROGRAM, "--config-file", path)
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


@pytest.mark.slow
def test_lines_of_berth_are_shown_and_chatter_of_libraries_is_not(lines):
    assert [line.partition("said by ")[2] for line in lines] == [
        "nova.filters",
        "nova.scheduler.host_manager",
        "nova.scheduler.selection.ranking",
    ]


@pytest.mark.slow
def test_milliseconds_are_printed_once(lines):
    for line in lines:
        assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} \d+ INFO ", line), line
