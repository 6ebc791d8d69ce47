"""The pages of a report: the index, pages of hosts, and the pages of decisions that these name."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import NamedTuple

from scheduler.decisions.explainer import MOST_ENTRIES
from scheduler.operators.pages import frame
from scheduler.operators.report.directory import INDEX, hosts_file
from scheduler.operators.report.hosts import Hosts, ReportedHost, State
from scheduler.operators.report.overview import NAMED, Entry, Overview, name_of

#: Hosts of one page.
PAGE = 200

#: Hosts that are drawn on the map.
MOST_DRAWN = 20_000

#: Up to so many hosts are drawn with their names; so many squares are drawn large.
WITH_NAMES, LARGE = 120, 2000

#: What each state means.
MEANINGS = {
    State.ROOM: "one more fits",
    State.STRANDED: "one amount has run out, others are left",
    State.FULL: "nothing is left for one more",
    State.UNSUITABLE: "has room, but a filter, trait or aggregate excludes it",
    State.DOWN: "the service is down",
    State.DISABLED: "the service or the cell is disabled",
}


class Place(NamedTuple):
    """A host and where its page has it."""

    host: ReportedHost
    address: str

    @property
    def never_chosen(self) -> bool:
        """Whether it has room, and no decision has chosen it."""
        return self.host.state is State.ROOM and not self.host.chosen


class Zone(NamedTuple):
    """The hosts of an availability zone, how many of each state, and how many more instances fit."""

    name: str
    places: Sequence[Place]
    states: Mapping[State, int]
    room: int
    never_chosen: int


class Site:
    """Makes the pages of one report."""

    def __init__(self, overview: Overview, hosts: Hosts | None, missing: str = "") -> None:
        """Make no page yet.

        Args:
            overview: Counts over the decisions.
            hosts: The hosts; None if they could not be read.
            missing: Why they could not be read.
        """
        self._overview = overview
        self._hosts = hosts
        self._missing = missing
        self._zones = [] if hosts is None else list(_zones(hosts))
        self.host_addresses = {
            place.host.host: place.address for zone in self._zones for place in zone.places
        }

    def index(self, written: Mapping[str, str]) -> str:
        """Return the index. ``written``: the addresses of the pages of decisions by their names."""
        overview = self._overview
        return frame.render(
            "scheduler.operators.report",
            "report.html",
            overview=overview,
            hours=_duration(overview.until - overview.since),
            part=_duration((overview.until - overview.since) / len(overview.over_time)),
            begin=_moment(overview.since),
            middle=_moment((overview.since + overview.until) / 2),
            end=_moment(overview.until),
            oldest=overview.oldest and _moment(overview.oldest),
            is_cut=overview.is_cut,
            most=MOST_ENTRIES,
            page_of=lambda entry: written.get(name_of(entry), ""),
            name_of=name_of,
            named=NAMED,
            hosts=self._hosts,
            missing=self._missing,
            zones=self._zones,
            total=Counter(host.state for host in self._hosts.states) if self._hosts else {},
            room=sum(zone.room for zone in self._zones),
            never_chosen=sum(zone.never_chosen for zone in self._zones),
            meanings=MEANINGS,
            drawn=self._drawn(),
            size=self._size(),
        )

    def host_pages(
        self, latest: Mapping[str, Entry], written: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        """Yield the names of the pages of hosts, and the pages.

        Args:
            latest: The latest decision that has chosen a service host.
            written: The addresses of the pages of decisions by their names.
        """
        for zone in self._zones:
            pages = [(name, list(places)) for name, places in groupby(zone.places, _page_of)]
            for number, (name, places) in enumerate(pages):
                yield (
                    name,
                    frame.render(
                        "scheduler.operators.report",
                        "hosts.html",
                        zone=zone,
                        flavor=self._hosts.flavor if self._hosts else "",
                        places=places,
                        latest=latest,
                        page_of=lambda entry: written.get(name_of(entry), ""),
                        name_of=name_of,
                        before=pages[number - 1][0] if number else "",
                        after=pages[number + 1][0] if number + 1 < len(pages) else "",
                        home=INDEX,
                    ),
                )

    def _drawn(self) -> Mapping[str, int]:
        """Return how many hosts of each zone are drawn."""
        left, drawn = MOST_DRAWN, {}
        for zone in self._zones:
            drawn[zone.name] = min(left, len(zone.places))
            left -= drawn[zone.name]
        return drawn

    def _size(self) -> str:
        count = len(self._hosts.states) if self._hosts else 0
        return "named" if count <= WITH_NAMES else "large" if count <= LARGE else "small"


def latest_choices(entries: Sequence[Entry]) -> dict[str, Entry]:
    """Return the first of the decisions that has chosen each service host."""
    found: dict[str, Entry] = {}
    for entry in entries:
        for host in entry["hosts"]:
            found.setdefault(host, entry)
    return found


def _zones(hosts: Hosts) -> Iterator[Zone]:
    number = 0
    for name, group in groupby(hosts.states, lambda host: host.zone):
        places = []
        for place, host in enumerate(group):
            number += place % PAGE == 0
            places.append(Place(host, f"{hosts_file(number)}#h{place}"))
        states = Counter(place.host.state for place in places)
        yield Zone(
            name,
            places,
            {state: states[state] for state in State if states[state]},
            sum(place.host.room for place in places),
            sum(place.never_chosen for place in places),
        )


def _page_of(place: Place) -> str:
    return place.address.partition("#")[0]


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.0f} minutes" if minutes >= 2 else f"{seconds:.0f} seconds"
    return f"{minutes / 60:.0f} hours" if minutes < 72 * 60 else f"{minutes / 1440:.0f} days"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
