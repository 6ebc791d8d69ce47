"""A mirrored answer against a real Placement: the same compute nodes for the same query."""

import random

import pytest
import requests

from scheduler.placement.candidates import FetchCandidates
from scheduler.placement.mirror import WIDE_QUERY, Mirror, plain_query, read_snapshot
from scheduler.placement.questions import Questions
from scheduler.shared_answers import SharedAnswers
from tests.integration.placement.random_clouds import fill_some, make_cloud, make_query
from tools.embedded_placement import PlacementProcess
from tools.placement_fleet import HEADERS, create_fleet

QUERIES = 120


@pytest.mark.parametrize("seed", range(2))
def test_mirrored_answers_equal_those_of_placement(tmp_path, connect, seed):
    rng = random.Random(seed)
    aggregates, providers = make_cloud(rng, 40)
    members = {provider.uuid: frozenset(provider.aggregates) for provider in providers}
    with PlacementProcess(tmp_path / "placement.db") as url:
        create_fleet(url, providers)
        fill_some(url, rng, providers)
        fetch = FetchCandidates(Questions(connect(url), SharedAnswers()))
        mirror = Mirror()
        wide = requests.get(f"{url}/allocation_candidates?{WIDE_QUERY}", headers=HEADERS, timeout=10)
        mirror.publish(read_snapshot(wide.content), 0.0)
        sizes = []
        for number in range(QUERIES):
            query = make_query(rng, aggregates)
            plain = plain_query(query)
            answer = mirror.find(plain)
            mirrored = {
                node
                for node in (answer.snapshot.uuids[row] for row in answer.rows)
                if all(members[node] & any_of for any_of in plain.member_of)
                and not members[node] & plain.not_member_of
            }
            asked = fetch(query, None)
            assert not asked.failed, (number, query.querystring, asked.reason)
            assert mirrored == set(asked.by_root), (number, query.querystring)
            sizes.append(len(mirrored))
        assert max(sizes) > 10
        assert min(sizes) == 0
