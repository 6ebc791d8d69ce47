"""What became of tests, and how it differs between the schedulers."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
import csv
import io
import re

PASSED = {"success", "xfail"}

Results = Mapping[str, str]


def read(text: str) -> Results:
    """Return the status of each test; a failed preparation of a class is named like one."""
    return {row["test"].partition("[")[0]: row["status"] for row in csv.DictReader(io.StringIO(text))}


def summary(name: str, results: Results) -> str:
    """Return how many tests have each status."""
    counts = Counter("passed" if status in PASSED else status for status in results.values())
    return f"{name}: " + ", ".join(f"{count} {status}" for status, count in sorted(counts.items()))


def regressions(results: Mapping[str, Results]) -> Sequence[str]:
    """Return the tests that passed with nova-scheduler only; without it, those that failed."""
    berth = results.get("berth", {})
    if "nova" not in results:
        return sorted(test for test, status in berth.items() if status not in {*PASSED, "skip"})
    passed = {test for test, status in results["nova"].items() if status in PASSED}
    return sorted(test for test in passed if berth and berth.get(test) not in PASSED)


def unmatched(patterns: Sequence[str], tests: Collection[str]) -> Sequence[str]:
    """Return the patterns that no test matches: a release of tempest may have renamed it."""
    return [each for each in patterns if not any(re.search(each, test) for test in tests)]


def compare(results: Mapping[str, Results]) -> Sequence[str]:
    """Return the summaries, and each test that did not pass with one of the schedulers."""
    lines = [summary(name, found) for name, found in results.items()]
    tests = sorted({test for found in results.values() for test in found})
    for test in tests:
        found = {name: each.get(test, "not run") for name, each in results.items()}
        if set(found.values()) - PASSED - {"skip"}:
            lines.append(f"{test}: " + ", ".join(f"{name} {status}" for name, status in found.items()))
    return lines
