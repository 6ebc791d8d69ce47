"""Print the results of the demo as plain text."""

from collections import Counter
import statistics
import textwrap

from conductor_client import journal
from scheduler.logs import count_text

GOOD, BAD, REFUSED = "\N{CHECK MARK}", "\N{MULTIPLICATION SIGN}", "\N{CIRCLED MINUS}"
WIDTH = 120
MARKS = {journal.ACTIVE: GOOD, journal.FAILED: BAD, journal.REFUSED: REFUSED}
LEGEND = f"{GOOD} built   {BAD} build failed, allocation removed   {REFUSED} alternate could not be claimed"
HEADERS = ("REQ", "FLAVOR", "ZONE", "MS", "INSTANCE", "CELL", "HOST", "ATTEMPTS", "SPARE", "WHAT HAPPENED")


def say(text):
    """Print a heading."""
    print(f"\n{text}\n{'-' * len(text)}", flush=True)


def table(headers, rows):
    """Print a table; columns of numbers are aligned to the right."""
    cells = [[str(value) for value in row] for row in [headers, *rows]]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    numeric = [
        all(isinstance(row[place], int) or not row[place] for row in rows) for place in range(len(headers))
    ]
    for line in cells:
        aligned = [
            text.rjust(width) if right else text.ljust(width)
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        text = "  " + "  ".join(aligned).rstrip()
        indent = " " * (2 + sum(widths[:-1]) + 2 * len(widths[:-1]))
        first, *rest = textwrap.wrap(text[len(indent) :], WIDTH - len(indent)) or [""]
        print((text[: len(indent)] + first).rstrip())
        for more in rest:
            print(indent + more)


def progress(clock):
    """Return a function that prints what is being started, with the seconds since the first call."""
    started = []

    def announce(text):
        started.append(clock())
        print(f"  {started[-1] - started[0]:5.1f} s  starting {text} ...", flush=True)

    return announce


def waited(record):
    """Return the seconds that the super-conductor's call to the scheduler took."""
    return next((event.took for event in record.events if event.took is not None), 0.0)


def instances(requests, records):
    """Print a line for each instance with its host and attempts; a request is described in its first line."""
    known = {record.instance_uuid: record for record in records}
    rows = []
    for number, request in enumerate(requests, 1):
        took = round(1000 * waited(known[request.uuids[0]]))
        described = (number, request.flavor.name, request.zone or "any", took)
        for uuid in request.uuids:
            record, last = known[uuid], known[uuid].last
            place = last.cell or "-", record.host or "-", record.attempts, last.alternates
            rows.append((*described, uuid[:8], *place, story(record)))
            described = ("",) * len(described)
    table(HEADERS, rows)
    print(f"\n  {LEGEND}\n  MS: time of the call to the scheduler. SPARE: alternates that were not needed.")


def story(record):
    """Return the hosts in the order of the attempts, each with the result of its attempt."""
    steps = [f"{event.host} {MARKS[event.state]}" for event in record.events if event.state in MARKS]
    if record.state == journal.ERROR:
        steps.append(f"ERROR: {record.last.detail}")
    return "  ".join(steps)


def errors(records, causes):
    """Print why instances are in ERROR; ``causes`` has what schedulers said, by instance."""
    failed = [record for record in records if record.state == journal.ERROR]
    if not failed:
        return
    say("Why instances are in ERROR")
    counted = Counter(causes.get(each.instance_uuid) or each.last.detail or "?" for each in failed)
    for text, number in counted.most_common():
        lead = f"  {number:>4}  "
        print(textwrap.fill(text, WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead)))


def totals(requests, records, took):
    """Print the totals of the run."""
    say("Totals")
    known = {record.instance_uuid: record for record in records}
    active = [record for record in records if record.state == journal.ACTIVE]
    moved = sum(record.attempts > 1 for record in active)
    times = [1000 * waited(known[request.uuids[0]]) for request in requests]
    print(f"  built          {len(active)} of {len(records)}, {moved} of them on an alternate host")
    print(f"  in ERROR       {sum(record.state == journal.ERROR for record in records)}")
    if times:
        print(f"  a request      {statistics.median(times):.0f} ms median, {max(times):.0f} ms at most")
    print(f"  all together   {took:.1f} s")


def deciders(found):
    """Print which scheduler decided how many requests."""
    say("Who decided")
    rows = [(one.name, one.partition or "all hosts", one.placed, one.refused) for one in found]
    table(("SCHEDULER", "PARTITION", "PLACED", "REFUSED"), rows)
    print("  REFUSED: no host was found.")


def verdict(found, finished):
    """Print the result of the comparison with Placement; return the exit status."""
    say("Truth, as Placement has it")
    problems = list(found.problems)
    if not found.consumers:
        problems.append("No instance was built")
    if not finished:
        problems.append("Some instances were neither built nor given up in time")
    if problems:
        for problem in problems:
            print(textwrap.fill(problem, WIDTH, initial_indent=f"  {BAD} ", subsequent_indent="    "))
        return 1
    held = count_text(found.consumers, "allocation")
    print(f"  {GOOD} {held}: one for each instance built, as its flavor says")
    print(f"  {GOOD} none left over from a failed build")
    print(f"  {GOOD} none of {found.resources} inventories over-committed")
    return 0
