"""Candidates found by lists of providers against a real Placement: the same as by allocation candidates."""

from concurrent.futures import ThreadPoolExecutor
import random
import uuid

import pytest

from scheduler.placement.candidates import FetchCandidates
from scheduler.placement.fresh import FreshCandidates
from scheduler.placement.mirror import plain_query
from scheduler.placement.questions import Questions
from scheduler.shared_answers import SharedAnswers
from tests.integration.placement.random_clouds import TRAITS, fill_some, make_cloud, make_query
from tools.embedded_placement import PlacementProcess
from tools.placement_fleet import Provider, create_fleet

QUERIES = 30
AT_ONCE = 12


class NotingClient:
    """A client that notes the questions for allocation candidates."""

    def __init__(self, client):
        self.client = client
        self.in_full = set()

    def get(self, path, *args, **kwargs):
        path_of, _, query = path.partition("?")
        if path_of == "/allocation_candidates":
            self.in_full.add(query)
        return self.client.get(path, *args, **kwargs)


def content(found):
    """Return the candidates of an answer by compute node, as plain values without an order."""
    return {
        root: sorted(
            (sorted((p, sorted(e["resources"].items())) for p, e in one.allocations.items()), one.roots)
            for one in group
        )
        for root, group in found.by_root.items()
    }


def compare(source, client, queries):
    """Ask all queries at once, then one by one for allocation candidates; return the numbers of hosts."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda query: source(query, None), queries))
    in_full = FetchCandidates(Questions(client, SharedAnswers()))
    for query, answer in zip(queries, answers, strict=True):
        asked = in_full(query, None)
        assert not asked.failed, (query.querystring, asked.reason)
        assert content(answer) == content(asked), query.querystring
        assert not answer.failed, query.querystring
    return [len(answer.by_root) for answer in answers]


MORE_PROVIDERS = {
    "children of other classes": ([], False),
    "a child with disk": ([("child", {"DISK_GB": {"total": 500}})], True),
    "a sharing provider of disk": ([("sharing", {"DISK_GB": {"total": 500}})], True),
    "a sharing provider of another class": ([("sharing", {"IPV4_ADDRESS": {"total": 500}})], False),
}


@pytest.mark.parametrize(("more", "disk_elsewhere"), MORE_PROVIDERS.values(), ids=MORE_PROVIDERS)
def test_answers_equal_those_of_allocation_candidates(tmp_path, connect, more, disk_elsewhere):
    rng = random.Random(len(more) + disk_elsewhere)
    aggregates, providers = make_cloud(rng, 24, unit_limits=True)
    for kind, inventories in more:
        chosen = str(uuid.UUID(int=rng.getrandbits(128)))
        if kind == "child":
            place = {"parent": providers[0].uuid, "traits": TRAITS[:1]}
        else:
            place = {"traits": ["MISC_SHARES_VIA_AGGREGATE"], "aggregates": aggregates[:2]}
        providers.append(Provider(kind, chosen, inventories, **place))
    with PlacementProcess(tmp_path / "placement.db") as url:
        create_fleet(url, providers)
        fill_some(url, rng, providers)
        client = connect(url)
        noting = NotingClient(client)
        questions = Questions(noting, SharedAnswers())
        source = FreshCandidates(questions, FetchCandidates(questions))
        queries = [make_query(rng, aggregates) for _ in range(QUERIES)]
        assert all(map(plain_query, queries))
        sizes = compare(source, client, queries)
    assert max(sizes) > 6
    assert min(sizes) == 0
    # An empty list is not believed, and one of disks is not asked for where others provide them too.
    assert noting.in_full == {
        query.querystring
        for query, size in zip(queries, sizes, strict=True)
        if not size or (disk_elsewhere and "DISK_GB" in query.querystring)
    }
