"""Several schedulers in simulated time: the short form, with fixed seeds."""

from dataclasses import replace

import pytest

from tools.strategies.run import SCENARIOS, STRATEGIES, main, run

pytestmark = pytest.mark.slow

BERTH = list(STRATEGIES)[-1]


def run_small(strategy=BERTH, scenario="spread, half full", seed=1, **changes):
    return run(replace(SCENARIOS[scenario], **{"hosts": 60} | changes), STRATEGIES[strategy], seed)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("scenario", ["fill-first, half full", "spread, nearly full"])
def test_every_request_is_answered_and_nothing_is_over_committed_or_leaked(scenario, strategy):
    result = run_small(strategy, scenario)
    assert result.problems == []
    assert (result.placed > 0, result.denied) == (True, 0)


@pytest.mark.parametrize(
    "changes",
    [
        {"loss": 0.3},
        {"share": 1.05},
        {"schedulers": 16},
    ],
    ids=", ".join,
)
def test_so_it_is_if_something_is_amiss(changes):
    assert run_small(scenario="fill-first, half full", **changes).problems == []


def test_what_finds_no_host_is_told_so():
    assert run_small(share=1.05).denied > 0


@pytest.mark.parametrize("scenario", ["spread, half full", "fill-first, half full"])
def test_schedulers_with_slices_that_agree_on_who_is_alive_do_not_claim_one_host_at_the_same_time(scenario):
    result = run_small(scenario=scenario, hosts=200, share=0.1)
    assert (result.overlapping, result.refused) == (0, 0)


def test_one_scheduler_alone_is_hardly_refused():
    assert run_small("none", "fill-first, half full", schedulers=1, hosts=200).refused < 0.05


def test_equal_seeds_have_equal_results():
    first, again, other = (run_small(hosts=30, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_the_stream_refuses_at_most_a_tenth_of_what_is_refused_without():
    shared, alone = (run_small(each, "fill-first, half full", hosts=200) for each in (BERTH, "none"))
    assert shared.refused <= alone.refused / 10


def test_the_command_prints_a_table(capsys):
    assert main(["--scenario", "spread, half full", "--hosts", "30", "--schedulers", "2"]) == 0
    assert capsys.readouterr().out.count(" half full ") == len(STRATEGIES)
