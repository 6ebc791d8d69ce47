"""The short form of ``tools/chaos``: real servers, one fault, and what callers were told against Placement."""

import random

import pytest

from tests.integration import services
from tools.rig import faults
from tools.rig.chaos_cloud import ChaosCloud
from tools.rig.rounds import LONGEST_RECOVERY, Rounds

pytestmark = [
    pytest.mark.rabbitmq,
    pytest.mark.mariadb,
    pytest.mark.postgresql,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

FAULT = "worker killed"
LONGEST_FAULT = 3.0  # seconds


@pytest.fixture(scope="module")
def cloud(tmp_path_factory):
    for command in ("rabbitmq-server", "mariadbd", "mariadb-install-db", "pg_config"):
        services.need(command)
    with ChaosCloud(tmp_path_factory.mktemp("chaos"), "quorum", hosts=6) as running:
        yield running


def test_callers_were_told_the_truth_and_are_served_again(cloud):
    rng = random.Random(1)
    outcome = Rounds(cloud, rng).run(FAULT, faults.make(FAULT, cloud, rng), LONGEST_FAULT)
    assert outcome.problems == []
    assert (outcome.lost, outcome.wrong, outcome.leaked) == (0, 0, 0)
    assert outcome.answered > 0
    assert outcome.recovery < LONGEST_RECOVERY  # the command judges the time; a machine of tests may be slow
