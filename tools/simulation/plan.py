"""What one history consists of, drawn from a seed: plain values that can be printed and made smaller."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
import json
import random
from typing import Any

from tools.simulation.http import FAULTS

# Seconds during which jobs and faults begin.
SPAN = 60.0

PLACEMENT = {"weather": 3, "down": 1, "hang": 1, "provider": 1}

# How databases can be: slow to answer, away, a connection that breaks, without hosts, hosts without a cell.
DATABASES = ("slow", "away", "broken", "empty", "unmapped")

# Kinds that change the requests, or where they are served; they are no events.
OF_REQUESTS = {
    "impatient",
    "many",
    "several hosts",
    "partitions",
    "crowd",
    "pieces",
    "together",
    "groups",
    "overlaps",
    "full",
    "moves",
    "patient",
}

# Events that do not last for a time.
MOMENTS = {
    "outside",
    "guests",
    "channel",
    "delete",
    "kill",
    "kill later",
    "kill master",
    "absence",
    "stop",
    "restart",
    "reload",
}

# Events of one scheduler, of several on hosts of their own.
OF_SCHEDULERS = {
    "channel",
    "pause",
    "pause later",
    "threads",
    "stop",
    "reload",
    "restart",
    "kill",
    "kill later",
    "kill master",
    "absence",
}

# Kinds of events by profile, and how often they are drawn next to each other.
PROFILES: dict[str, Mapping[str, int]] = {
    "placement": PLACEMENT,
    "many": {**PLACEMENT, "hang": 6, "many": 1},
    "delete": {**PLACEMENT, "delete": 8},
    "repeat": {**PLACEMENT, "impatient": 8},
    "redelivery": {**PLACEMENT, "redelivery": 12, "broker": 2},
    "reply": {**PLACEMENT, "reply queue": 4, "broker": 3, "large": 1},
    "pause": {**PLACEMENT, "pause": 5},
    "threads": {**PLACEMENT, "threads": 5},
    "database": {**PLACEMENT, "database": 5},
    "stop": {**PLACEMENT, "stop": 4, "restart": 2, "reload": 1},
    "kill": {**PLACEMENT, "kill": 5},
    "master": {**PLACEMENT, "kill master": 4, "restart": 1, "kill": 2},
}
PROFILES["all"] = {kind: weight for profile in list(PROFILES.values()) for kind, weight in profile.items()}
del PROFILES["all"]["many"]  # these take long
# Added later; it is no part of "all", whose seeds would mean other histories then.
PROFILES["unconfirmed"] = {**PROFILES["all"], "unconfirmed": 25}
PROFILES["hosts"] = {
    **PLACEMENT,
    "slow": 6,
    "redelivery": 4,
    "broker": 1,
    "stop": 2,
    "restart": 1,
    "kill": 4,
    "kill later": 8,
    "kill master": 3,
    "several hosts": 1,
}
PROFILES["backlog"] = {
    **PLACEMENT,
    "absence": 8,
    "channel": 4,
    "delete": 4,
    "redelivery": 2,
    "reply queue": 1,
}
PROFILES["channel"] = {
    **PLACEMENT,
    "channel": 12,
    "broker": 2,
    "kill": 3,
    "delete": 3,
    "slow": 4,
    "impatient": 1,
}
PROFILES["channel on hosts"] = {**PROFILES["hosts"], "channel": 8, "delete": 3, "absence": 3}
# Fair weather, and more requests than there is room for, at the same time.
PROFILES["crowd"] = {"outside": 1, "crowd": 1}
# The same in bad weather, and hosts that go and come back.
PROFILES["scarce"] = {"weather": 4, "slow": 6, "provider": 6, "delete": 4, "outside": 2, "crowd": 1}
# Nova does not tell who still waits when that is in question.
PROFILES["blind"] = {**PLACEMENT, "database": 8, "pause": 5, "absence": 5, "redelivery": 2}
# Placement is killed while it writes.
PROFILES["crash"] = {"crash": 12, "slow": 6, "weather": 2, "redelivery": 3, "kill": 2, "delete": 2}
# Writes come late, when their sender is gone or was refused, for instances that are deleted. There is
# room only at times.
PROFILES["late"] = {"lost": 12, "guests": 10, "kill": 5, "delete": 8, "crowd": 1}
# What instances hold cannot be read.
PROFILES["unread"] = {"unread": 10, "slow": 3, "channel": 4, "redelivery": 3, "kill": 2, "delete": 1}
# A call claims in several writes, slowly, and is delivered to another daemon meanwhile.
PROFILES["pieces"] = {"slow": 8, "channel": 10, "redelivery": 4, "delete": 2, "pieces": 1}
# A process is frozen between two of its steps, mostly while a call is served.
PROFILES["frozen"] = {"pause later": 10, "slow": 2, "redelivery": 2, "delete": 2}
# Each scheduler has hosts of its own. A call that one has claimed hosts for is run by another one.
PROFILES["partitions"] = {
    "pause later": 8,
    "channel": 6,
    "kill later": 4,
    "redelivery": 3,
    "slow": 2,
    "several hosts": 1,
    "partitions": 1,
}
# Several calls in pieces at the same time. All daemons run each of them, and their writes conflict.
PROFILES["together"] = {"channel": 10, "redelivery": 4, "conflicts": 3, "weather": 2, "together": 1}
# Writes of several processes put a host over its capacity, and are carried out twice. Room comes and goes.
PROFILES["overlaps"] = {"guests": 10, "lost": 3, "crowd": 1, "overlaps": 1}
# Members of server groups are placed at the same time, by schedulers that share their decisions or do not.
PROFILES["groups"] = {
    **PLACEMENT,
    "slow": 3,
    "channel": 5,
    "redelivery": 3,
    "unconfirmed": 4,
    "broker": 1,
    "kill": 4,
    "kill later": 3,
    "stop": 2,
    "restart": 1,
    "pause later": 3,
    "delete": 1,
    "several hosts": 1,
    "groups": 1,
}
# The same, and each scheduler has hosts of its own.
PROFILES["groups apart"] = {"slow": 4, "channel": 4, "kill later": 2, "delete": 1, "several hosts": 1}
PROFILES["groups apart"] |= {"groups": 1, "partitions": 1}
# Most requests are evacuations, run several times; the disks of their instances are copied for long.
PROFILES["moves"] = {"redelivery": 8, "channel": 4, "slow": 4, "kill": 4, "moves": 1}
# A process is killed while its writes are carried out, and others take the room: the next run of each call
# ends with an error. Then all processes are killed.
PROFILES["full"] = {"guests": 4, "kill": 3, "kill master": 3, "delete": 1, "crowd": 1, "full": 1}
# The same for evacuations; and large requests whose users delete instances meanwhile. Nova buries neither.
PROFILES["full and moved"] = {"guests": 4, "kill": 3, "full": 1, "moves": 1}
PROFILES["many and deleted"] = {**PLACEMENT, "hang": 6, "many": 1, "delete": 16}
PROFILES["frozen and moved"] = {**PROFILES["frozen"], "moves": 1}
# Callers still wait when a reply is given up that the broker has not confirmed.
PROFILES["patient"] = {**PLACEMENT, "unconfirmed": 12, "patient": 1}


#: The policy of a server group, and how many of its members may share a host, by the number of the group.
POLICIES = {1: ("soft-affinity", 0), 2: ("anti-affinity", 1), 3: ("affinity", 0), 4: ("anti-affinity", 2)}
HARD = (2, 3, 3, 4)


@dataclass(frozen=True)
class Job:
    """A request that a conductor makes.

    Attributes:
        at: Seconds from the start.
        instances: Numbers of the instances, none of them in another job.
        evacuates: The instance holds something on a host that the request ignores.
        patience: Seconds after which this caller gives up, if before the time that the options say.
        repeats: Times that it asks again after it gave up.
        group: The number of the server group of its instances; 0 for none.
    """

    at: float
    instances: tuple[int, ...]
    evacuates: bool = False
    patience: float | None = None
    repeats: int = 0
    group: int = 0


@dataclass(frozen=True)
class Event:
    """Something that happens to the parts. ``details`` depend on the kind (see ``history``)."""

    at: float
    kind: str
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        details = ", ".join(f"{name}={value}" for name, value in self.details.items())
        return f"{self.at:7.3f} {self.kind} {details}"


@dataclass(frozen=True)
class Limits:
    """Sizes and times, most of them options of the product.

    ``schedulers`` are hosts; each has ``workers``, which are daemons. With
    ``partitions`` each of them has compute nodes of its own, and all take calls from one queue: the router is
    left out. With ``quorum`` queues the broker counts deliveries. ``others`` is the option
    ``overlapping_claims``. With a ``stream`` schedulers share their decisions.
    """

    workers: int = 1
    threads: int = 4
    hosts: int = 3
    room: int = 4
    batch: int = 20
    placement_timeout: int = 0
    response_timeout: int = 60
    long_timeout: int = 300
    shutdown_timeout: int = 60
    subset: int = 1
    preemption: float = 0.2
    schedulers: int = 1
    quorum: bool = False
    others: int = 8
    partitions: bool = False
    stream: bool = False

    @property
    def alarm(self) -> int:
        """Seconds from SIGTERM until a daemon that has not stopped is ended."""
        return self.shutdown_timeout + 20


@dataclass(frozen=True)
class Plan:
    """One history. ``seed`` also decides what is left to chance while it runs.

    Attributes:
        seed: Number and profile, as drawn; with a suffix after it was made smaller.
    """

    seed: str
    profile: str
    limits: Limits
    jobs: tuple[Job, ...]
    events: tuple[Event, ...]

    def lines(self) -> list[str]:
        """Return the plan for a reader."""
        jobs = [
            f"{job.at:7.3f} request for {', '.join(f'i{n}' for n in job.instances)}"
            f"{', an evacuation' if job.evacuates else ''}"
            f"{f', patience {job.patience}' if job.patience else ''}"
            f"{f', repeated {job.repeats} times' if job.repeats else ''}"
            f"{f', in group {job.group}' if job.group else ''}"
            for job in self.jobs
        ]
        return [f"seed {self.seed}", str(self.limits), *sorted([*jobs, *map(str, self.events)])]

    def to_json(self) -> str:
        """Return the plan for ``from_json``."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """Return the plan of a text that ``to_json`` returned."""
        data = json.loads(text)
        jobs = [Job(**{**job, "instances": tuple(job["instances"])}) for job in data["jobs"]]
        events = [Event(**event) for event in data["events"]]
        return cls(data["seed"], data["profile"], Limits(**data["limits"]), tuple(jobs), tuple(events))


def profile_of(seed: int) -> str:
    """Return the profile of a seed, where none is asked for."""
    names = list(PROFILES)
    return names[seed % len(names)]


def draw(seed: int, profile: str = "") -> Plan:
    """Return the plan of a seed; without a profile, of the seed's own."""
    profile = profile or profile_of(seed)
    chance = random.Random(f"plan {seed} {profile}")
    kinds = PROFILES[profile]
    limits = replace(_draw_limits(chance), quorum=random.Random(f"queues {seed}").random() < 0.3)
    limits = _adapted(limits, chance, kinds, alone=profile == "crowd")
    jobs = tuple(_draw_jobs(chance, kinds))
    if "many" in kinds:
        # Many writes, one after the other, take longer than callers wait.
        limits = replace(limits, room=60, batch=2, long_timeout=min(limits.long_timeout, 60))
    events = tuple(_draw_events(chance, kinds, limits, jobs)) if limits.others else ()
    if limits.others:
        events = (*_first_events(chance, kinds, jobs), *events)
    return Plan(f"{seed} {profile}", profile, limits, jobs, events)


def _draw_limits(chance: random.Random) -> Limits:
    return Limits(
        workers=chance.choice((1, 1, 2, 3)),
        threads=chance.choice((1, 2, 4, 8)),
        hosts=chance.choice((1, 2, 3, 4)),
        room=chance.choice((1, 3, 6, 20)),
        # The second number is of no use any more; without it each seed would mean another history.
        batch=(chance.choice((2, 3, 20)), chance.random())[0],
        placement_timeout=chance.choice((0, 0, 2, 30)),
        response_timeout=chance.choice((10, 30, 60)),
        long_timeout=chance.choice((20, 60, 300, 1800)),
        shutdown_timeout=chance.choice((5, 30, 60, 160)),
        subset=chance.choice((1, 1, 2, 5)),
        preemption=chance.choice((0.0, 0.1, 0.5)),
    )


def _adapted(limits: Limits, chance: random.Random, kinds: Mapping[str, int], *, alone: bool) -> Limits:
    """Return the limits that a profile needs."""
    if "several hosts" in kinds:
        limits = replace(limits, schedulers=chance.choice((2, 2, 3)))
    if "partitions" in kinds:
        limits = replace(limits, partitions=True, hosts=2 * limits.schedulers, room=20)
    if "crowd" in kinds:
        limits = _crowd(chance, limits, alone=alone and chance.random() < 0.3)
    if "lost" in kinds:
        limits = replace(limits, room=chance.choice((1, 2, 4)))
    if "patient" in kinds:
        limits = replace(limits, response_timeout=180, long_timeout=max(limits.long_timeout, 300))
    return _with_processes(limits, chance, kinds)


def _with_processes(limits: Limits, chance: random.Random, kinds: Mapping[str, int]) -> Limits:
    """Return the limits of profiles in which several processes run one call."""
    if "pieces" in kinds:
        limits = replace(limits, batch=2, workers=chance.choice((2, 3)))
    if "together" in kinds:
        limits = replace(limits, batch=2, workers=chance.choice((3, 4)), threads=8, placement_timeout=2)
        limits = replace(limits, hosts=chance.choice((1, 2, 3)), room=chance.choice((4, 6, 20)))
    if "overlaps" in kinds:
        limits = replace(limits, workers=chance.choice((2, 3)), schedulers=2, room=chance.choice((1, 2)))
        limits = replace(limits, placement_timeout=2, others=8, hosts=chance.choice((1, 2, 3, 4)))
    if "groups" in kinds:
        limits = replace(limits, stream=chance.random() < 0.7, room=chance.choice((2, 6, 20)))
        limits = replace(limits, hosts=max(limits.hosts, chance.choice((2, 3, 4))))
    if "full" in kinds:
        limits = replace(limits, workers=2, schedulers=1, hosts=1, room=chance.choice((1, 2)))
        if "moves" in kinds:
            limits = replace(limits, hosts=2, room=limits.room + 2)
        limits = replace(limits, placement_timeout=2)
    return limits


def _first_events(
    chance: random.Random, kinds: Mapping[str, int], jobs: tuple[Job, ...]
) -> tuple[Event, ...]:
    """Return what each history of a profile begins with."""
    if "together" in kinds:
        # Each delivery of the first seconds is lost, so that the next daemon runs the call too.
        return (Event(0.0, "redelivery", {"rate": 1.0, "duration": 20.0}),)
    if "overlaps" in kinds:
        lost = {"rate": 1.0, "kinds": ["reset after"], "duration": 20.0, "of": "writes"}
        return (Event(0.0, "lost", lost),)
    if "full" in kinds:
        return _moved_events(chance, jobs) if "moves" in kinds else _full_events(chance)
    return ()


def _moved_events(chance: random.Random, jobs: tuple[Job, ...]) -> tuple[Event, ...]:
    """Let the write of a move be under way when others take the room and its process is killed."""
    job = next((each for each in jobs if each.evacuates), jobs[0])
    begin = round(job.at + 0.2 * chance.random(), 3)
    guests = {"host": (job.instances[0] + 1) % 2, "number": 4, "duration": round(30.0 * chance.random(), 3)}
    return (
        Event(job.at, "lost", {"rate": 1.0, "kinds": ["reset after"], "duration": 1.0, "of": "writes"}),
        Event(begin, "guests", guests),
        *(Event(round(begin + 0.2, 3), "kill", {"worker": number, "steps": 0}) for number in (0, 1)),
    )


def _full_events(chance: random.Random) -> tuple[Event, ...]:
    """Let writes be under way when others take the room, then kill their process, and then all of them."""
    first, later = round(chance.uniform(0.1, 2.0), 3), round(chance.uniform(1.0, 20.0), 3)
    stay = round(chance.choice((5.0, 30.0)) * chance.random(), 3)
    return (
        Event(0.0, "lost", {"rate": 1.0, "kinds": ["reset after"], "duration": first, "of": "writes"}),
        Event(round(first / 2, 3), "guests", {"host": 0, "number": 4, "duration": stay}),
        Event(first, "kill", {"worker": chance.randrange(2), "steps": 0}),
        *((Event(round(first + later, 3), "kill master"),) if chance.random() < 0.7 else ()),
    )


def _crowd(chance: random.Random, limits: Limits, *, alone: bool) -> Limits:
    """Leave little room, to one process that knows of all claims, or to several and others."""
    limits = replace(limits, hosts=chance.choice((1, 1, 2)), room=chance.choice((2, 4, 6)), threads=8)
    if alone:
        return replace(limits, workers=1, others=0)
    return replace(limits, workers=chance.choice((1, 2, 3)), schedulers=chance.choice((1, 1, 2)))


def _draw_jobs(chance: random.Random, kinds: Mapping[str, int]) -> list[Job]:
    jobs, number = [], 1
    crowd = "crowd" in kinds
    soon = "together" in kinds or "groups" in kinds
    span = (0.02, 0.3) if crowd else (0.1, 0.5, 2.0) if soon else (1.0, SPAN)
    for _ in range(chance.choice((4, 8) if crowd else (1, 2, 4, 6))):
        evacuates = not (crowd or "together" in kinds) and chance.random() < (
            0.8 if "moves" in kinds else 0.2
        )
        many = 1 if evacuates else chance.choice(_sizes(kinds))
        hurried = "impatient" in kinds and chance.random() < 0.7
        job = Job(
            at=round(chance.choice(span) * chance.random(), 3),
            instances=tuple(range(number, number + many)),
            evacuates=evacuates,
            patience=round(chance.choice((0.1, 2.0, 30.0)) * chance.random(), 3) if hurried else None,
            repeats=chance.choice((0, 1, 1, 3)) if hurried else 0,
            group=_draw_group(chance, evacuates=evacuates) if "groups" in kinds else 0,
        )
        jobs.append(job)
        number += many
    return jobs


def _draw_group(chance: random.Random, *, evacuates: bool) -> int:
    """Return the group of a request; an instance that is evacuated may be anywhere before."""
    return chance.choice((0, 1)) if evacuates else chance.choice((0, 1, *HARD, *HARD))


def _sizes(kinds: Mapping[str, int]) -> tuple[int, ...]:
    """Return how many instances a request may be for."""
    if "crowd" in kinds or "groups" in kinds:
        return (1, 1, 2)
    if "several hosts" in kinds:
        return (1, 2, 3, 5)
    if "pieces" in kinds or "together" in kinds:
        return (3, 5)
    return (20, 40) if "many" in kinds else (1, 1, 1, 2, 3, 5)


def _draw_events(
    chance: random.Random, kinds: Mapping[str, int], limits: Limits, jobs: tuple[Job, ...]
) -> list[Event]:
    drawable = [kind for kind in kinds if kind not in OF_REQUESTS]
    weights = [kinds[kind] for kind in drawable]
    events = []
    for kind in chance.choices(drawable, weights, k=chance.choice((2, 3, 5, 8))):
        # Near a job, when there is something to disturb; what lasts for a time may begin before it.
        lead = 0.0 if kind in MOMENTS else chance.choice((0.0, 0.0, 2.0))
        begin = chance.choice(jobs).at - lead * chance.random()
        at = round(max(0.0, begin + chance.choice((0.05, 0.05, 0.3, 2.0, 20.0)) * chance.random()), 3)
        details = _DETAILS[kind](chance, limits, jobs)
        if kind in OF_SCHEDULERS and limits.schedulers > 1:
            details["scheduler"] = chance.randrange(limits.schedulers)
        events.append(Event(at, kind, details))
    return events


def _duration(chance: random.Random) -> float:
    return round(chance.choice((1.0, 10.0, 60.0, 120.0, 400.0)) * chance.random(), 3)


def _faults(chance: random.Random, kinds: list[str], rate: float, of: str = "") -> dict[str, Any]:
    details = {"rate": rate, "kinds": kinds, "duration": _duration(chance)}
    return details | ({"of": of} if of else {})


def _weather(chance: random.Random, _limits: Limits, _jobs: tuple[Job, ...]) -> dict[str, Any]:
    names = list(FAULTS)
    kinds = chance.sample(names, chance.randint(1, 4)) if chance.random() < 0.7 else names
    return _faults(chance, kinds, chance.choice((0.1, 0.3, 0.7, 1.0)))


def _lost(chance: random.Random, _limits: Limits, _jobs: tuple[Job, ...]) -> dict[str, Any]:
    kinds = chance.choice((["reset after"], ["slow"], ["reset after", "reset before"]))
    return _faults(chance, kinds, chance.choice((0.5, 1.0)), of="writes")


def _unread(chance: random.Random, _limits: Limits, _jobs: tuple[Job, ...]) -> dict[str, Any]:
    kinds = chance.choice((["500 before"], ["reset before"], ["html before", "reset after"]))
    return _faults(chance, kinds, chance.choice((0.3, 0.7, 1.0)), of="consumers")


def _lasting(chance: random.Random, _limits: Limits, _jobs: tuple[Job, ...]) -> dict[str, Any]:
    return {"duration": _duration(chance)}


def _rate(chance: random.Random, _limits: Limits, _jobs: tuple[Job, ...]) -> dict[str, Any]:
    return {"rate": chance.choice((0.3, 1.0)), "duration": _duration(chance)}


def _worker(chance: random.Random, limits: Limits, _jobs: tuple[Job, ...]) -> dict[str, Any]:
    return {
        "worker": chance.randrange(limits.workers),
        "steps": chance.choice((0, 0, chance.randrange(100))),
        "duration": _duration(chance),
    }


#: Draws the details of each kind of event, in the order in which they are written here.
_DETAILS: Mapping[str, Callable[[random.Random, Limits, tuple[Job, ...]], dict[str, Any]]] = {
    "weather": _weather,
    "down": _lasting,
    "crash": _lasting,
    "hang": lambda chance, _limits, _jobs: _faults(chance, ["hang"], 1.0),
    "slow": lambda chance, _limits, _jobs: _faults(chance, ["slow"], chance.choice((0.5, 1.0))),
    "lost": _lost,
    "conflicts": lambda chance, _limits, _jobs: _faults(
        chance, ["concurrent"], chance.choice((0.3, 0.6)), of="writes"
    ),
    "unread": _unread,
    "provider": lambda chance, limits, _jobs: {
        "host": chance.randrange(limits.hosts),
        "duration": _duration(chance),
    },
    "channel": _worker,
    "delete": lambda chance, _limits, jobs: {"instance": chance.choice(chance.choice(jobs).instances)},
    "redelivery": _rate,
    "broker": _lasting,
    "reply queue": _lasting,
    "unconfirmed": _rate,
    "outside": lambda chance, limits, _jobs: {
        "host": chance.randrange(limits.hosts),
        "number": chance.choice((1, 3, 8)),
    },
    "guests": lambda chance, limits, _jobs: {
        "host": chance.randrange(limits.hosts),
        "number": 4,
        "duration": round(10.0 * chance.random(), 3),
    },
    "absence": _lasting,
    "large": lambda chance, _limits, _jobs: {
        "bytes": chance.choice((1000, 5000, 20000)),
        "duration": _duration(chance),
    },
    "pause": _worker,
    # after so many steps a request is likely to be claimed; longer than callers wait
    "pause later": lambda chance, limits, _jobs: {
        "worker": chance.randrange(limits.workers),
        "steps": chance.randrange(20, 200),
        "duration": round(chance.uniform(5.0, 120.0), 3),
    },
    "threads": _worker,
    "database": lambda chance, _limits, _jobs: {
        "how": chance.choice(DATABASES),
        "duration": _duration(chance),
    },
    "stop": _worker,
    "reload": _worker,
    "restart": _lasting,
    "kill": _worker,
    # after so many steps a request is likely to have hosts for all its instances
    "kill later": lambda chance, limits, _jobs: {
        "worker": chance.randrange(limits.workers),
        "steps": chance.randrange(20, 260),
    },
    "kill master": _lasting,
}
