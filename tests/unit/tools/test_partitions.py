"""What the benchmark of a whole cloud asks for and concludes; the cloud itself is a command."""

from collections import Counter
import dataclasses
import threading

import pytest
import sqlalchemy as sa

from conductor_client import journal
from conductor_client.journal import Event, Record
from scheduler.conf import partitions as conf_partitions
from scheduler.nova_db import schema
from tools.rig import truth
from tools.rig.cloud import Cloud
from tools.rig.fleet import Cell, Fleet
from tools.rig.load import FLAVORS, BootRequest
from tools.rig.partitioned_cloud import PARTITIONS, partition_of
from tools.scenarios import partitions
from tools.scenarios.partitions_builds import Builds, again, make_requests
from tools.scenarios.partitions_outcome import Outcome, lines_of_logs

FLEET = Fleet(12, [Cell("cell1", "sqlite://"), Cell("cell2", "sqlite://")])
HOSTS = {host.name: partition_of(host) for host in FLEET.hosts}
GENERAL = [name for name, partition in HOSTS.items() if partition == "general"]
LARGE = [name for name, partition in HOSTS.items() if partition == "large"]
ZONE_OF = {host.name: host.zone for host in FLEET.hosts}


def built(uuid, *hosts, at=100.0, took=1.0, end=5.0):
    """The record of an instance that was built on the last of these hosts, and failed on those before."""
    events = [
        Event(uuid, journal.SCHEDULING, at=at),
        Event(uuid, journal.SCHEDULING, took=took, at=at + took),
    ]
    for number, host in enumerate(hosts):
        events.append(Event(uuid, journal.BUILDING, host, at=at + took + number + 0.1))
        if host != hosts[-1]:
            events.append(Event(uuid, journal.FAILED, host, at=at + took + number + 0.5))
    return Record(uuid, [*events, Event(uuid, journal.ACTIVE, hosts[-1], at=at + end)])


def failed(uuid, *hosts, detail="No valid host was found. None is left."):
    """The record of an instance that was built nowhere."""
    record = built(uuid, *hosts, "last")
    record.events[-1] = dataclasses.replace(record.events[-1], state=journal.ERROR, host=None, detail=detail)
    record.events = [event for event in record.events if event.host != "last"]
    return record


def outcome(*pairs):
    """Pairs of a request and the records of its instances."""
    records = {record.instance_uuid: record for _request, mine in pairs for record in mine}
    return Outcome([request for request, _mine in pairs], records, HOSTS)


def single(uuid, **fields):
    return BootRequest([uuid], FLAVORS[0], **fields)


# -- what is asked for


def test_requests_are_for_so_many_instances_of_all_kinds_and_the_same_for_a_seed():
    first, second = make_requests(1000, 7), make_requests(1000, 7)
    assert sum(len(each.uuids) for each in first) == 1000
    assert {(bool(each.group), len(each.uuids) > 1, bool(each.zone)) for each in first} >= {
        (False, False, False),
        (False, False, True),
        (False, True, False),
        (True, False, False),
        (True, True, False),
    }
    assert {each.flavor for each in first} == set(FLAVORS)
    assert [(each.flavor, each.zone, len(each.uuids)) for each in first] == [
        (each.flavor, each.zone, len(each.uuids)) for each in second
    ]
    assert len({uuid for each in first for uuid in each.uuids}) == 1000


def test_groups_are_asked_for_at_once_or_member_by_member_and_every_member_is_asked_for():
    groups = [each for each in make_requests(1000, 1) if each.group]
    assert {len(each.uuids) == len(each.group) for each in groups if len(each.group) > 1} == {True, False}
    asked = Counter(uuid for each in groups for uuid in each.uuids)
    assert asked == Counter({uuid for each in groups for uuid in each.group})


def test_who_failed_everywhere_is_asked_for_again_without_the_failed_hosts():
    request = single("a", zone="az1", group=["a", "b"], excluded=["old"])
    (new,) = again([request, single("b")], [failed("a", "x", "y"), built("b", "x", "y")])
    assert new.uuids[0] not in {"a", "b"}
    assert (new.zone, new.flavor, list(new.excluded)) == ("az1", request.flavor, ["old", "x", "y"])
    assert new.group == ["a", "b", *new.uuids]
    assert new.spec().ignore_hosts == ["old", "x", "y"]


def test_who_got_no_host_at_all_is_not_asked_for_again():
    assert list(again([single("a")], [failed("a")])) == []


class Conductor:
    """Builds at once; those in ``fail`` end in ERROR after a host."""

    def __init__(self, failures=0):
        self.journal = journal.Journal()
        self.left = failures

    def build_instances(self, _context, spec, uuids):
        assert spec.num_instances == len(uuids)
        for uuid in uuids:
            self.left -= 1
            for event in (failed(uuid, "x") if self.left >= 0 else built(uuid, "y")).events:
                self.journal.write(event)


def test_building_ends_when_all_is_built_also_what_was_asked_for_again(tmp_path):
    database = sa.create_engine(f"sqlite:///{tmp_path}/api")
    schema.API.create_all(database)
    building = Builds(Conductor(failures=2), 4, database)
    assert building.build([single(f"i{number}") for number in range(6)])
    assert building.placed == len(building.requests) == 8
    assert [list(each.excluded) for each in building.requests[6:]] == [["x"], ["x"]]
    with database.connect() as connection:
        assert connection.execute(sa.select(schema.build_requests.c.id)).all() == []
        assert len(connection.execute(sa.select(schema.instance_mappings.c.id)).all()) == 8


# -- what comes out


def test_the_partitions_are_understood_by_the_scheduler_and_have_all_hosts(tmp_path):
    cloud = Cloud(tmp_path)
    cloud.placement_url = "http://localhost"
    sections = "[berth]\npartition = large\n" + "".join(each.section for each in PARTITIONS)
    cloud.configure("fake://", sections=sections)
    understood = conf_partitions.all_partitions(cloud.conf)
    assert [(each.name, set(each.aggregates)) for each in understood] == [
        (each.name, set(each.zones)) for each in PARTITIONS
    ]
    assert {ZONE_OF[host] for host in LARGE} == {"az3"}
    assert len(GENERAL) == 2 * len(LARGE) == 8


def test_what_came_out_is_told_by_partition():
    text = list(
        outcome(
            (single("a"), [built("a", GENERAL[0], took=1.0, end=3.0)]),
            (single("b"), [built("b", GENERAL[0], GENERAL[1], took=3.0, end=9.0)]),
            (single("c"), [built("c", LARGE[0], took=2.0, end=4.0)]),
            (single("e"), [failed("e")]),
        ).lines()
    )
    assert text[0] == "3 of 4 instances built in 9.0 s, 0.3 per second"
    assert [line.split() for line in text[2:5]] == [
        ["general", "2", "1.00", "3.00", "3.00", "3.00", "9.00", "9.00"],
        ["large", "1", "2.00", "2.00", "2.00", "4.00", "4.00", "4.00"],
        ["all", "3", "2.00", "3.00", "3.00", "4.00", "9.00", "9.00"],
    ]
    assert text[5] == "Builds on an alternate: 1. Not built: No valid host was found. None is left. 1"


def test_what_must_be_held_is_what_was_built():
    found = outcome((single("a"), [built("a", LARGE[0])]), (single("b"), [failed("b")]))
    (uuid,) = (host.uuid for host in FLEET.hosts if host.name == LARGE[0])
    assert found.expected(FLEET.hosts) == {"a": (uuid, {"VCPU": 1, "MEMORY_MB": 2048, "DISK_GB": 20})}


GROUP = ("a", "b")


@pytest.mark.parametrize(
    ("pairs", "problem"),
    [
        ([(single("a", zone="az3"), [built("a", GENERAL[0])])], "is not in az3"),
        ([(single("a", excluded=["x", GENERAL[0]]), [built("a", GENERAL[0])])], "which was excluded"),
        ([(single("a"), [Record("a", built("a", "x").events[:-1])])], "still building"),
        ([(single("a"), [failed("a", detail="Boom\nTraceback")])], "a: Boom"),
        (
            [(single(each, group=GROUP), [built(each, GENERAL[0])]) for each in GROUP],
            "Two members of the anti-affinity group",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_true_is_found(pairs, problem):
    (line,) = outcome(*pairs).problems(FLEET.hosts, truth.Truth())
    assert problem in line
    assert "Traceback" not in line


def test_refusals_and_members_on_two_hosts_are_no_problem_but_what_placement_says_is():
    pairs = [
        (single(each, group=GROUP), [built(each, host)]) for each, host in zip(GROUP, GENERAL, strict=False)
    ]
    found = outcome(*pairs, (single("c"), [failed("c")]))
    assert found.problems(FLEET.hosts, truth.Truth()) == []
    assert found.problems(FLEET.hosts, truth.Truth(problems=["x"])) == ["x"]


def test_logs_say_which_scheduler_decided_and_which_forwarded(tmp_path):
    log = tmp_path / "router-1.log"
    log.write_text(
        "INFO x [req-1] Placed instance a on host b (cell1): ...\n"
        "INFO x [req-1] Calling partition large (by flavor)\n"
        "INFO x [req-2] Calling partition general (by instance)\n"
        "INFO x [req-3] Forwarded call 3 to berth.forwarded.x.0 (server_group)\n"
    )
    assert list(lines_of_logs([log])) == ["router-1: 1 placed; forwarded: partition 2, server_group 1"]


class Killable:
    """A scheduler whose log names its lives."""

    def __init__(self, log):
        self.log = log
        self.seen = []

    def kill(self):
        self.seen.append("killed")

    def start(self):
        self.seen.append("started")

    def wait_for_line(self, _words, _timeout, times):
        self.seen.append(times)


def test_at_each_point_another_scheduler_of_each_partition_is_killed_and_started_again(tmp_path, monkeypatch):
    monkeypatch.setattr(partitions, "RESTART_AFTER", 0)
    schedulers = {}
    for partition in ("p", "q"):
        for number in (1, 2):
            log = tmp_path / f"{partition}-{number}.log"
            log.write_text("Worker 0 takes requests\n")
            schedulers.setdefault(partition, []).append(Killable(log))
    stopping = threading.Event()
    stopping.set()
    done = partitions.kill_at([0.2, 0.4, 0.9], schedulers, lambda: 0.5, stopping)
    assert done == [["p-1", "q-1"], ["p-2", "q-2"]]
    assert all(each.seen == ["killed", "started", 2] for group in schedulers.values() for each in group)
