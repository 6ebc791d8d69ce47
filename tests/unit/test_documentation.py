"""What the documents name is there: files, options, modules, nova's names."""

import ast
import pathlib
import re

import pytest

from scheduler import conf as options
from scheduler.rules import nova_modules

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.rst"
BENCHMARKS = ROOT / "doc" / "source" / "benchmarks.rst"
DOCUMENTS = [README, ROOT / "CONTRIBUTING.rst", *sorted((ROOT / "doc" / "source").glob("*.rst"))]

# Pages for readers; the others are the index and what reno makes
PAGES = [path for path in DOCUMENTS[2:] if path.stem not in {"index", "release-notes"}]

FILE = re.compile(r"``((?:scheduler|conductor_client|tools|tests|etc|examples|doc)/[\w./-]+)``")
OPTION = re.compile(r"``\[(\w+)\] (\w+)")

# Options of Placement, and of libraries, which register them when they are used
FOREIGN = {
    ("compute", "live_migration_wait_for_vif_plug"),
    ("placement", "allocation_conflict_retry_count"),
    ("placement", "max_allocation_candidates"),
    ("oslo_concurrency", "lock_path"),
    ("oslo_messaging_rabbit", "heartbeat_timeout_threshold"),
    *(("DEFAULT", name) for name in ("control_exchange", "graceful_shutdown_timeout", "log_dir")),
    *(("DEFAULT", name) for name in ("state_path", "use_journal")),
}


@pytest.fixture(scope="module")
def known():
    return {(group or "DEFAULT", option.dest) for group, found in options.list_opts() for option in found}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_files(document):
    named = FILE.findall(document.read_text())
    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_options(document, known):
    assert set(OPTION.findall(document.read_text())) - FOREIGN - known == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_each_page_begins_with_what_the_reader_can_do_after_it(page):
    title, _, text = page.read_text().partition("\n\n")
    assert title
    assert text.startswith("With this page you ")


def collapsed(path):
    return " ".join(path.read_text().split())


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.stem)
def test_quoted_figures_are_those_of_the_benchmarks(document):
    measured = collapsed(BENCHMARKS)
    quoted = re.findall(r":measured:`([^`]+)`", collapsed(document))
    assert [
        each for each in quoted if not re.search(rf"(?<![\w.,]){re.escape(each)}(?!\w|[.,]\d)", measured)
    ] == []


def test_the_figures_of_readme_are_those_of_the_benchmarks():
    tables = [
        re.findall(r"^\S.*? {2,}.*\d.*$", path.read_text(), re.MULTILINE) for path in (README, BENCHMARKS)
    ]
    quoted, measured = ({re.sub(" {2,}", " | ", row) for row in rows} for rows in tables)
    assert quoted
    assert quoted - measured == set()


def test_the_glossary_is_short():
    glossary = (ROOT / "doc" / "source" / "glossary.rst").read_text()
    entries = re.findall(r"^   (?!:)(\S.*)\n {6}\S", glossary, re.MULTILINE)
    assert "doubt" in entries
    assert len(entries) <= 40


#: Packages of one class or object a module, which bears its name.
SPEAKING = {"filters", "objects", "prefilters", "weights"}


@pytest.mark.parametrize(
    "init",
    [path for path in sorted((ROOT / "scheduler").rglob("__init__.py")) if path.parent.name not in SPEAKING],
    ids=lambda path: path.parent.name,
)
def test_packages_list_their_modules(init):
    """Rooms of many small files that do not explain each other by name."""
    listed = ast.get_docstring(ast.parse(init.read_text())) or ""
    modules = {path.stem for path in init.parent.glob("*.py")} - {"__init__"}
    assert {name for name in modules if not re.search(rf"\b{name}\b", listed)} == set()


def test_nova_s_names():
    text = (ROOT / "doc" / "source" / "write-your-own-filter.rst").read_text()
    modules = {name for name, contents in nova_modules.NAMES.items() if contents}
    assert {name for name in modules if f"``{name}``" not in text} == set()
