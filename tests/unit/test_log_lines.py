"""doc/source/log-lines.rst has each line of INFO and above that the daemons can log, and no other."""

import ast
from functools import cache
import re

import pytest

from tests.support.sources import ROOT, modules, nodes, walked

PAGE = ROOT / "doc" / "source" / "log-lines.rst"

LEVELS = {"info": "INFO", "warning": "WARNING", "error": "ERROR", "exception": "ERROR"}

#: How the names of loggers end that limit how often a line is written; the kind of line is their first argument.
LIMITED = ("warnings", "_repeated", "_REPEATED", "_reports")

#: Commands of operators write to a terminal, and logs.py logs what others hand it.
LEFT_OUT = (
    "operators/audit/",
    "operators/explain/",
    "operators/plan/",
    "operators/report/command.py",
    "operators/run/",
    "logs.py",
)

#: Modules whose functions yield or return whole lines, and the level at which they are logged.
BUILT = {
    "conf/derived.py": "WARNING",
    "conf/misspelt.py": "WARNING",
    "decisions/decision_line.py": "INFO",
    "selection/narrowing.py": "INFO",
}

#: A line or a part of one that consists of variables: those of ``BUILT``, and the text of an error.
VARIABLE = {"...", "...: ...", "..., ..., ... ms..."}


def template(node):
    """The text of a string, with ... for each value in it; None if it is no string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        text = re.sub(r"%(\.\d+)?[a-z]", "...", node.value)
    elif isinstance(node, ast.JoinedStr):
        text = "".join(each.value if isinstance(each, ast.Constant) else "..." for each in node.values)
    else:
        return None
    return re.sub(r"(\.\.\.)+", "...", text)


def strings(path):
    """The strings that are assigned to a name in a module, by name."""
    found = {}
    for node in walked(path):
        if isinstance(node, ast.Assign):
            target = node.targets[0]
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = zip(target.elts, node.value.elts, strict=True)
            found |= {
                name.id: value for name, value in pairs if isinstance(name, ast.Name) and template(value)
            }
    return found


def level_of(call):
    """The level that a call of ``log`` has at most."""
    return next(each for each in ("ERROR", "WARNING", "INFO") if each in ast.unparse(call.args[0]))


def messages(call):
    """Level and message of what a call logs, or makes an object log."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    receiver = ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    if name == "OutageLog":
        yield "ERROR", call.args[1]
        yield "INFO", call.args[2]
    elif name == "_attempt" and len(call.args) == 2:
        yield "ERROR", call.args[0]
    elif name == "log" and receiver == "LOG":
        yield level_of(call), call.args[1]
    elif name in LEVELS and receiver.lower().endswith(("log", "logger")) and receiver != "log":
        plain = template(call.args[0]) == "..." and len(call.args) == 2 and isinstance(call.args[1], ast.Name)
        yield LEVELS[name], call.args[1 if plain else 0]
    elif name == "warning" or (name in LEVELS and receiver.endswith(LIMITED)):
        plain = template(call.args[1]) == "..."
        yield LEVELS[name], call.args[2 if plain else 1]


def lines_of(path):
    """The level of each line that a module can log, by its text."""
    named = strings(path)
    for node in walked(path):
        if isinstance(node, ast.Call):
            for level, message in messages(node):
                string = named.get(message.id) if isinstance(message, ast.Name) else message
                if (text := template(string)) and text not in VARIABLE:
                    yield text, level
        elif isinstance(node, ast.Yield | ast.Return) and str(path).endswith(tuple(BUILT)):
            text = template(node.value) or ""
            if len(text.replace("...", "").split()) > 2 and text not in VARIABLE:
                yield text, BUILT["/".join(path.parts[-2:])]


@cache
def logged():
    folder = ROOT / "scheduler"
    paths = [each for each in modules("scheduler") if not str(each.relative_to(folder)).startswith(LEFT_OUT)]
    return dict(line for path in paths for line in lines_of(path))


def listed():
    text = PAGE.read_text()
    own = re.findall(r"^(?:\* )?``(.+?)``(?:\n   |: )(INFO|WARNING|ERROR)\b", text, re.MULTILINE)
    ends = re.findall(r"INFO\s+at\s+its\s+end:\s+``(.+?)``", text, re.DOTALL)
    return dict(own) | {re.sub(r"\s+", " ", each): "INFO" for each in ends}


def test_the_page_lists_what_can_be_logged():
    assert listed() == logged()


#: A line as daemons write it in a sample of a page: level, logger, text.
SAMPLE = re.compile(r" *(INFO|WARNING|ERROR) (nova(?:\.\w+)+) (?:\[[^]]*\] )?(.*)")


def samples(text):
    """Level, logger and text of each line of the log that a page shows, with the lines that continue it."""
    found, indent = [], 0
    for line in text.splitlines():
        if match := SAMPLE.fullmatch(line):
            found.append(match.groups())
            indent = len(line) - len(line.lstrip())
        elif indent and line.startswith(" " * (indent + 1)):
            *of_line, shown = found[-1]
            found[-1] = (*of_line, f"{shown} {line.strip()}")
        else:
            indent = 0
    return found


def can_be_logged(level, logger, text):
    """Whether the module of this logger, or one that makes lines for others, has the line.

    Each ``...`` of a line stands for something. An outage has its reason at the end.
    """
    path = ROOT.joinpath(*logger.removeprefix("nova.").split(".")).with_suffix(".py")
    built = [ROOT / "scheduler" / each for each in BUILT]
    lines = dict(line for each in (path, *built) for line in lines_of(each)) if path.exists() else logged()
    reason = "(: .+)?" if level == "ERROR" else ""
    return any(
        re.fullmatch(re.escape(line).replace(r"\.\.\.", ".+") + reason, text)
        for line, its_level in lines.items()
        if its_level == level
    )


@pytest.mark.parametrize("page", sorted(PAGE.parent.glob("*.rst")), ids=lambda page: page.stem)
def test_the_lines_that_pages_show_can_be_logged(page):
    assert [each for each in samples(page.read_text()) if not can_be_logged(*each)] == []


#: A number before a plural: "1 hosts". Numbers of things follow what they count, or are ``count_text``.
COUNTED = re.compile(r"(?<!of )(?<!last )%d (?!seconds|bytes)[a-z ]*?[a-z]{3,}(?<!ss)s\b")

#: Lines about a number that is never one, and nova's own.
NEVER_ONE = {
    "%d aggregate values found; using the %s of %s",
    "There are %d hosts available but %d instances requested to build",
    "The best of the %d hosts that this scheduler owns is taken first",
}


def test_no_line_has_a_number_before_a_plural():
    found = {
        node.value
        for _, node in nodes("scheduler")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and COUNTED.search(node.value)
    }
    assert found - NEVER_ONE == set()
