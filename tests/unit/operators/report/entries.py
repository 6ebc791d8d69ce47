"""Entries of a list of decisions, for reports."""

from scheduler.decisions.document import time_text

#: When the time of a report begins, and how long it is, in seconds.
SINCE, LENGTH = 1_000_000.0, 48_000.0

RAM = {
    "code": "resources",
    "subject": "RamFilter",
    "words": "RamFilter rejected all",
    "remedy": "Add capacity.",
}
GPU = {
    "code": "trait",
    "subject": "GPU",
    "words": "9 hosts would be suitable without GPU",
    "remedy": "Correct the trait.",
}


def entry(number, hosts=("h1",), flavor="m1", cause=None, **changes):
    """A decision that was made so many seconds after the begin of the report."""
    return {
        "time": time_text(SINCE + number),
        "request_id": f"req-{number}",
        "kind": "build",
        "project_id": "p",
        "instances": [f"i{number}"],
        "flavor": {"name": flavor},
        "availability_zone": None,
        "result": "failed" if cause or not hosts else "scheduled",
        "summary": "",
        "hosts": [] if cause else list(hosts),
        "milliseconds": 10.0,
        "error": "NoValidHost" if cause else None,
        "cause": cause,
        **changes,
    }
