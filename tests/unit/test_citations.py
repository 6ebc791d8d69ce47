"""Citations of the specification have one form, and the sections that they cite exist.

The form is explained in doc/source/reference/index.rst.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "doc" / "source" / "reference"
FOLDERS = ("scheduler", "conductor_client", "tests", "tools", "examples", "etc")
DATA = {".json", ".pyc"}

HEADING = re.compile(r"^#+ (\d+(?:\.\d+)*)\.? ", re.MULTILINE)

#: Blanks, or one line break with what begins the next line of a comment.
GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:#[ \t]*)?)"
NUMBER = r"\d+(?:\.\d+)*(?!\w|\.\d)"
RANGE = rf"{NUMBER}-{NUMBER}"
ITEM = rf"{GAP}(?:(?:step|row|item){GAP}\d+\b|\(\d+(?:-\d+)?(?:,{GAP}\d+(?:-\d+)?)*\))"
SECTION = rf"(?:{RANGE}|{NUMBER}(?:{ITEM})?)"
SECTIONS = rf"{SECTION}(?:,{GAP}{SECTION})*"

#: A citation should go on after what was read of it, but does so in another form.
MORE = re.compile(rf"(?:{GAP}(?:and|or|to)\b{GAP}|[ \t]*[;,/\u2013-]{GAP}?|{GAP}§)(?:steps?{GAP})?{NUMBER}")

#: Section numbers that look like a citation, whether or not there is such a chapter.
LOOSE = re.compile(
    rf"\bspec:{GAP}(?:[a-z]+(?:-[a-z]+)*{GAP})?{NUMBER}|\b(?:spec|chapter){GAP}(?:section{GAP})?§?{NUMBER}",
    re.IGNORECASE,
)


class Citations:
    """The citations in a text, for given chapters: name -> numbers of its sections."""

    def __init__(self, chapters):
        self.chapters = chapters
        self._name = re.compile(rf"(?<![\w-])(?:{'|'.join(chapters)})(?![\w-])")
        part = rf"{self._name.pattern}{GAP}{SECTIONS}"
        self._citation = re.compile(rf"\bspec:(?:{GAP}|`){part}(?:,{GAP}{part})*")
        self._part = re.compile(rf"({self._name.pattern}){GAP}({SECTIONS})")

    def cited(self, text):
        """What is cited, in order: offset of the chapter, chapter, first section, last section."""
        for citation in self._citation.finditer(text):
            yield from self._sections(text, citation)

    def problems(self, text):
        """What is wrong, in order: number of the line, what it is."""
        found = [*self._unknown(text), *self._in_another_form(text)]
        return [(text.count("\n", 0, offset) + 1, problem) for offset, problem in sorted(found)]

    def _sections(self, text, citation):
        for part in self._part.finditer(text, *citation.span()):
            for section in re.finditer(SECTION, part[2]):
                first, _, last = re.match(rf"{RANGE}|{NUMBER}", section[0])[0].partition("-")
                yield part.start(), part[1], first, last or first

    def _unknown(self, text):
        for offset, chapter, first, last in self.cited(text):
            for section in sorted({first, last} - set(self.chapters[chapter])):
                yield offset, f"{chapter} has no section {section}"
            if parts(first) > parts(last) or first.count(".") != last.count("."):
                yield offset, f"{first}-{last} is no range of sections"

    def _in_another_form(self, text):
        citations = [citation.span() for citation in self._citation.finditer(text)]
        loose = [match.span() for match in LOOSE.finditer(text)]
        for match in self._name.finditer(text):
            if not within(match.start(), citations + loose):
                yield match.start(), f"{match[0]} is named outside a citation"
        for start, end in loose:
            if not within(start, citations):
                yield start, f"'{' '.join(text[start:end].split())}' is no citation"
        for _, end in citations:
            if more := MORE.match(text, end):
                yield end, f"'{' '.join(more[0].split())}' does not continue a citation"


def parts(section):
    return [int(number) for number in section.split(".")]


def within(offset, spans):
    return any(start <= offset < end for start, end in spans)


def without_code(markdown):
    return re.sub(r"^```.*?^```", "", markdown, flags=re.MULTILINE | re.DOTALL)


def specification():
    chapters = sorted(REFERENCE.glob("*.md"))
    return {chapter.stem: HEADING.findall(without_code(chapter.read_text())) for chapter in chapters}


def files():
    """All files that may cite the specification, except this one: its samples cite chapters that do not exist."""
    yield ROOT / "README.rst"
    yield from sorted((ROOT / "doc" / "source").glob("*.rst"))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and path.suffix not in DATA and path != pathlib.Path(__file__).resolve():
                yield path


def test_all_citations():
    citations = Citations(specification())
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {problem}"
        for path in files()
        for line, problem in citations.problems(path.read_text())
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def test_sections_are_numbered_once():
    chapters = specification()
    assert len(chapters) == 5
    assert all(chapters.values())
    assert {name for name, sections in chapters.items() if len(sections) != len(set(sections))} == set()
