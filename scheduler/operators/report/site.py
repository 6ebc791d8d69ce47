"""The pages of a report: the index, pages of hosts, and the pages of decisions that these name."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import count, groupby
from typing import NamedTuple

from scheduler.decisions.document import FAILED, time_text
from scheduler.decisions.memory import MOST_ENTRIES
from scheduler.nova_db.schema import chunks
from scheduler.operators.report.directory import INDEX, hosts_file
from scheduler.operators.report.hosts import ReportedHost, ReportedHosts, ReportedState
from scheduler.operators.report.overview import NAMED, Entry, Overview, name_of
from scheduler.operators.shown.shown import (
    BAD,
    Columns,
    Counts,
    Emphasis,
    Folded,
    Head,
    Joined,
    Link,
    Saying,
    Shown,
    Table,
    Words,
    some,
    table,
)

#: Hosts of one page.
PAGE = 200

#: Hosts of a decision that are named in the list.
FIRST = 3

#: What each state means.
MEANINGS = {
    ReportedState.ROOM: "one more fits",
    ReportedState.STRANDED: "one amount has run out, others are left",
    ReportedState.FULL: "nothing is left for one more",
    ReportedState.UNSUITABLE: "has room, but a filter, trait or aggregate excludes it",
    ReportedState.DOWN: "the service is down",
    ReportedState.DISABLED: "the service or the cell is disabled",
}


class Zone(NamedTuple):
    """The hosts of an availability zone by the names of their pages."""

    name: str
    pages: Sequence[tuple[str, Sequence[ReportedHost]]]

    @property
    def places(self) -> list[ReportedHost]:
        return [place for _, places in self.pages for place in places]


class Site:
    """Makes the pages of one report.

    Attributes:
        written: The addresses of the pages of decisions by the names of these.
        host_addresses: The addresses of hosts by their names.
    """

    def __init__(self, overview: Overview, entries: Sequence[Entry], hosts: ReportedHosts | str) -> None:
        """Make no page yet, of the decisions, the latest first, and of the hosts or why they are unknown."""
        self._overview = overview
        self._hosts = None if isinstance(hosts, str) else hosts
        self._missing = hosts if isinstance(hosts, str) else ""
        self.written: dict[str, str] = {}
        self._choices: dict[str, list[Entry]] = {}
        for entry in entries:
            for host in dict.fromkeys(entry["hosts"]):
                self._choices.setdefault(host, []).append(entry)
        self._zones = [] if self._hosts is None else list(_zones(self._hosts))
        pages = [page for zone in self._zones for page in zone.pages]
        self.host_addresses = {
            place.host: f"{name}#h{number}" for name, places in pages for number, place in enumerate(places)
        }

    def index(self) -> Shown:
        overview = self._overview
        head = Head(
            f"The last {_duration(overview.until - overview.since)}",
            f"{_moment(overview.since)} to {_moment(overview.until)} UTC",
            time=time_text(overview.until),
            sayings=[Saying(words) for words in self._sayings()],
        )
        parts: list[Table] = [self._over_time()] if overview.decisions else []
        parts += [causes(overview, self.written), *self._by_zone(), self._latest()]
        return Shown(overview, head, parts)

    def _sayings(self) -> Iterator[str]:
        yield counts(self._overview)
        if self._hosts:
            room = sum(host.state is ReportedState.ROOM for host in self._hosts.states)
            yield f"{room:,} of {len(self._hosts.states):,} hosts have room for {self._hosts.flavor}"
        overview, oldest = self._overview, _moment(self._overview.oldest or 0)
        if overview.is_cut and overview.decisions >= MOST_ENTRIES:
            yield f"Only the latest {MOST_ENTRIES:,} decisions are counted, those since {oldest} UTC."
        elif overview.is_cut:
            yield (
                f"No decision before {oldest} UTC is known: schedulers keep only the latest ones in memory. "
                "`--log` reads a decision log."
            )
        if self._missing:
            yield self._missing

    def _over_time(self) -> Table:
        overview = self._overview
        part = _duration((overview.until - overview.since) / len(overview.over_time))
        most = f"most requests in {part}"
        columns: Columns = {
            "From": lambda one: _moment(one.since),
            "To": lambda one: _moment(one.until),
            "Requests": lambda one: Counts(one.over_time, one.failed_over_time, most),
            most.capitalize(): lambda one: max(one.over_time),
        }
        legend = ("pale", "requests"), ("part", "without a host")
        return table([overview], columns, "Requests over time", legend=legend)

    def _by_zone(self) -> Iterator[Table]:
        if self._hosts is None:
            return
        flavor, total = self._hosts.flavor, Counter(host.state for host in self._hosts.states)
        columns: Columns = {
            "Zone": lambda zone: Link(zone.name, f"{zone.pages[0][0]}#h0"),
            "Hosts": lambda zone: len(zone.places),
            **{state.capitalize(): partial(_in_state, state=state) for state in total},
            "Room for": lambda zone: sum(place.room for place in zone.places),
            "With room, never chosen": lambda zone: sum(place.never_chosen for place in zone.places) or "",
        }
        meanings = "; ".join(f"{state}: {words}" for state, words in MEANINGS.items() if state in total)
        room = sum(host.room for host in self._hosts.states)
        note = f"Room is for instances of {flavor}; the cloud has room for {room:,}. {meanings}."
        yield table(self._zones, columns, "Hosts by availability zone", note=note, anchor="hosts")

    def _latest(self) -> Table:
        overview = self._overview
        columns: Columns = {
            "Request": lambda entry: linked(entry, name_of(entry) or "without id", self.written),
            "Time": lambda entry: entry["time"][11:19],
            "Flavor": lambda entry: entry["flavor"]["name"],
            "Zone": "availability_zone",
            "Project": "project_id",
            "Result": self._result,
            "ms": lambda entry: f"{entry['milliseconds']:.0f}",
        }
        return table(
            overview.latest,
            columns,
            "Latest decisions",
            note="Each has a page if it is still kept." if overview.latest else "",
            anchor="decisions",
            searched=bool(overview.latest),
            left_out=overview.decisions - len(overview.latest),
        )

    def _result(self, entry: Entry) -> Words:
        if entry["result"] == FAILED:
            cause = entry.get("cause")
            return Emphasis(f"no host: {cause['words'] if cause else entry['summary']}", BAD)
        return some(list(map(Link, entry["hosts"])), FIRST)

    def host_pages(self) -> Iterator[tuple[str, Shown]]:
        """Yield the names of the pages of hosts, and what they show."""
        for zone in self._zones:
            for number, (name, places) in enumerate(zone.pages):
                others = [Link("previous", zone.pages[number - 1][0])] if number else []
                if number + 1 < len(zone.pages):
                    others.append(Link("next", zone.pages[number + 1][0]))
                yield name, self._host_page(zone, places, others)

    def _host_page(self, zone: Zone, places: Sequence[ReportedHost], others: Sequence[Link]) -> Shown:
        head = Head(
            f"Hosts of {zone.name}",
            f"{len(places)} of {len(zone.places):,} hosts, {places[0].host} to {places[-1].host}",
            time=time_text(self._overview.until),
            home=Link("All zones", f"{INDEX}#hosts"),
            pages=others,
        )
        flavor = self._hosts.flavor if self._hosts else ""
        columns: Columns = {
            "Host": "host",
            "Node": "other_node",
            "State": _state,
            "Room": "room",
            "Instances": "instances",
            "VCPU free": lambda place: int(place.free.get("VCPU", 0)),
            "Memory free (GiB)": lambda place: int(place.free.get("MEMORY_MB", 0) / 1024),
            "Disk free (GiB)": lambda place: int(place.free.get("DISK_GB", 0)),
            "Chosen": lambda place: place.chosen or "",
            "Decisions": lambda place: _links_of(self._choices.get(place.host, [])[:NAMED], self.written),
            "Cell": "cell",
        }
        note = (
            f"Room is for instances of {flavor}. `berth-explain host NAME` says why a host is never chosen."
        )
        anchors = {number: f"h{number}" for number in range(len(places))}
        return Shown(places, head, [table(places, columns, note=note, anchors=anchors, searched=True)])


def counts(overview: Overview) -> str:
    """Return the numbers of an overview that matter most."""
    share = f" ({100 * overview.failed / overview.decisions:.1f} %)" if overview.failed else ""
    failed = f"{overview.failed:,} without a host{share}"
    return (
        f"{overview.decisions:,} decisions, {failed}, {overview.milliseconds:.0f} ms for a decision, median"
    )


def _in_state(zone: Zone, state: ReportedState) -> Words:
    return sum(place.state is state for place in zone.places) or ""


def causes(overview: Overview, written: Mapping[str, str]) -> Table:
    """Return the causes of failures, the most frequent first. ``written``: addresses of decisions."""
    columns: Columns = {
        "Cause": "code",
        "About": "subject",
        "Requests": "count",
        # one event is no course of events
        "Over time": lambda one: Counts(one.over_time, one.over_time, one.code) if one.count > 1 else "",
        "The latest": "words",
        "Remedy": "remedy",
        "Last": lambda one: _links_of(one.latest, written),
    }
    return table(
        overview.causes,
        columns,
        "Why requests found no host",
        note=f"The latest {NAMED} requests of each cause have a page." if overview.causes else "",
        pictures=("Over time", "Last"),
        anchor="causes",
        left_out=overview.more_causes,
    )


def _links_of(entries: Sequence[Entry], written: Mapping[str, str]) -> Words:
    links = [linked(entry, str(entry["time"][5:16].replace("T", " ")), written) for entry in entries]
    if len(links) < 2:
        return links[0] if links else ""
    return Folded(links[0], f"{len(links) - 1} more", links[1:])


def linked(entry: Entry, words: str, written: Mapping[str, str]) -> Link:
    return Link(words, written.get(name_of(entry), ""))


def _state(host: ReportedHost) -> Words:
    look, state = f"host-state {host.state}", str(host.state)
    if host.never_chosen:
        look, state = f"{look} never", f"{state}, never chosen"
    return Joined([Emphasis("", look), state, f": {host.words}" if host.words else ""], "")


def _zones(hosts: ReportedHosts) -> Iterator[Zone]:
    numbers = count(1)
    for name, group in groupby(hosts.states, lambda host: host.zone):
        yield Zone(name, [(hosts_file(next(numbers)), places) for places in chunks(group, PAGE)])


def _duration(seconds: float) -> str:
    minutes = seconds / 60
    if minutes < 120:
        return f"{minutes:.0f} minutes" if minutes >= 2 else f"{seconds:.0f} seconds"
    return f"{minutes / 60:.0f} hours" if minutes < 72 * 60 else f"{minutes / 1440:.0f} days"


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")
