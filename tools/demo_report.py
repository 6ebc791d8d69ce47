"""What the demo shows: plain text, readable in any terminal."""

import statistics
import sys

from conductor_client import journal

GOOD, BAD, ARROW = "\N{CHECK MARK}", "\N{MULTIPLICATION SIGN}", "\N{RIGHTWARDS ARROW}"


def say(text):
    """A heading."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def table(headers, rows):
    """Lines of a table; numbers stand to the right."""
    cells = [[str(value) for value in row] for row in [headers, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [all(isinstance(row[place], int | float) for row in rows) for place in range(len(headers))]
    for line in cells:
        aligned = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  " + "  ".join(aligned).rstrip())


def parts(cloud, seconds):
    """What was set up."""
    bus = "RabbitMQ, a virtual host for each cell" if cloud.rabbit else "in memory"
    hosts = len(cloud.fleet.hosts)
    print(f"  message bus  {bus}")
    print(f"  databases    API, cell0, {', '.join(cell.name for cell in cloud.fleet.cells)} (SQLite)")
    print(f"  Placement    {cloud.placement_url}, {hosts} resource providers")
    print("  services     scheduler, super-conductor; in each cell a conductor and its computes")
    print(f"  up in {seconds:.1f} s")


def instances(requests, records):
    """One line an instance: where it went and what happened on the way."""
    known = {record.instance_uuid: record for record in records}
    rows = []
    for number, request in enumerate(requests, 1):
        for uuid in request.uuids:
            record = known[uuid]
            rows.append(
                (
                    number,
                    uuid[:8],
                    request.flavor[1],
                    request.zone or "-",
                    record.last.cell or "-",
                    record.host or "-",
                    record.attempts,
                    record.last.alternates,
                    story(record),
                )
            )
    headers = (
        "REQ",
        "INSTANCE",
        "FLAVOR",
        "ZONE",
        "CELL",
        "HOST",
        "TRIED",
        "ALTERNATES LEFT",
        "WHAT HAPPENED",
    )
    table(headers, rows)


def story(record):
    """Hosts in the order they were tried, with how each try ended."""
    marks = {
        journal.FAILED: f"{BAD} build failed",
        journal.REFUSED: f"{BAD} claim refused",
        journal.ACTIVE: GOOD,
    }
    steps = [f"{event.host} {marks[event.state]}" for event in record.events if event.state in marks]
    if record.state == journal.ERROR:
        steps.append(f"ERROR: {record.last.detail}")
    return f" {ARROW} ".join(steps)


def totals(requests, records, took):
    """Numbers of the whole run."""
    say("Totals")
    active = [record for record in records if record.state == journal.ACTIVE]
    moved = [record for record in active if record.attempts > 1]
    lost = [record for record in records if record.state == journal.ERROR]
    times = [
        1000 * seconds for seconds in map(_scheduling_time, requests_first(requests, records)) if seconds
    ]
    print(f"  built          {len(active)} of {len(records)}, {len(moved)} of them on an alternate host")
    print(f"  in ERROR       {len(lost)}")
    for cell in sorted({record.last.cell for record in active}):
        here = [record for record in active if record.last.cell == cell]
        print(f"  in {cell:<12}{len(here)} on {len({record.host for record in here})} hosts")
    if times:
        median, slowest = statistics.median(times), max(times)
        print(f"  a request      {median:.0f} ms median, {slowest:.0f} ms at most")
    print(f"  all together   {took:.1f} s")


def requests_first(requests, records):
    """The record of the first instance of each request: it tells how long the request took."""
    known = {record.instance_uuid: record for record in records}
    return [known[request.uuids[0]] for request in requests]


def _scheduling_time(record):
    return next((event.took for event in record.events if event.took is not None), None)


def verdict(found, finished):
    """What Placement says in the end; returns the exit status."""
    say("Truth, as Placement has it")
    problems = list(found.problems)
    if not finished:
        problems.append("Some instances were neither built nor given up in time")
    if problems:
        for problem in problems:
            print(f"  {BAD} {problem}")
        return 1
    print(f"  {GOOD} {found.consumers} allocations: one for each instance built, as its flavor says")
    print(f"  {GOOD} none left over from a failed build")
    print(f"  {GOOD} none of {found.resources} inventories over-committed")
    sys.stdout.flush()
    return 0
