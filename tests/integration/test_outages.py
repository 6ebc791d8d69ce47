"""Outages of Placement and killed schedulers, with real servers: no build fails, nothing is leaked, replies are true.

The short form of ``tools/berth chaos``.
"""

import random

import pytest

from tests.integration import services
from tools.rig import faults, rounds
from tools.rig.world import RunningWorld
from tools.scenarios import chaos

pytestmark = [
    pytest.mark.rabbitmq,
    pytest.mark.mariadb,
    pytest.mark.postgresql,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

SECONDS = 4.0  # that an outage lasts; the command lets it last for a minute


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    for command in ("rabbitmq-server", "mariadbd", "mariadb-install-db", "pg_config"):
        services.need(command)
    with RunningWorld(chaos.world("quorum", hosts=6), tmp_path_factory.mktemp("outages")) as running:
        yield running


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """How soon requests are served as before, the command judges: a machine of tests may be slow."""
    monkeypatch.setattr(rounds, "USUAL", 30.0)
    monkeypatch.setattr(rounds, "CLEAN", 2.0)


@pytest.mark.parametrize(
    ("fault", "callers"),
    [
        ("placement killed", 16),
        pytest.param("placement stopped", 2, marks=pytest.mark.campaign),
        pytest.param("placement refuses", 2, marks=pytest.mark.campaign),
        pytest.param("placement refuses one daemon", 16, marks=pytest.mark.campaign),
        pytest.param("placement throttled", 2, marks=pytest.mark.campaign),
    ],
)
def test_no_build_fails(cloud, campaign_seed, fault, callers):
    rng = random.Random(campaign_seed + 1)
    made = faults.CHAOS[fault](cloud, rng)
    outcome = rounds.Rounds(cloud, callers).run(fault, made, rng, SECONDS, SECONDS)
    assert outcome.problems == []
    assert (outcome.refused, outcome.lost, outcome.wrong, outcome.leaked) == (0, 0, 0, 0)
    assert outcome.answered > 0


def test_after_schedulers_were_killed_callers_are_served_again(cloud):
    rng = random.Random(1)
    made = faults.CHAOS["scheduler killed"](cloud, rng)
    outcome = rounds.Rounds(cloud).run("scheduler killed", made, rng, 3.0)
    assert outcome.problems == []
    assert (outcome.lost, outcome.wrong, outcome.leaked) == (0, 0, 0)
    assert outcome.answered > 0
    assert outcome.recovery < rounds.LONGEST_RECOVERY


def test_a_daemon_that_starts_in_an_outage_is_ready_after_it(cloud):
    scheduler, ready = cloud.schedulers[0], "The daemon takes requests"
    scheduler.stop()
    times = scheduler.log.read_text().count(ready)
    cloud.placement.kill()
    try:
        scheduler.start()
        scheduler.wait_for_line("connecting to the broker", times=times + 1)
        scheduler.wait_for_line("Placement is unavailable (no connection")
        assert scheduler.log.read_text().count(ready) == times
    finally:
        cloud.placement.start()
    scheduler.wait_for_line(ready, times=times + 1)
