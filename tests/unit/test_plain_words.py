"""Words that readers of English as a second language stumble over do not occur in documents, docstrings and comments."""

import ast
import io
import re
import tokenize

import pytest

from tests.support.sources import ROOT, modules, walked

DOCUMENTS = [*ROOT.glob("*.rst"), *(ROOT / "doc" / "source").glob("*.rst")]
DOCUMENTS += (ROOT / "doc" / "source" / "performance").glob("*.rst")
MODULES = modules("scheduler")

#: What to write in place of each pattern.
BETTER = {
    r"\banew\b": "again",
    r"\bbe it\b": "whether",
    r"\bbeside\b": "next to, besides, at the same time, while",
    r"\b(gives?|given|gave) back\b": "release",
    r"\b(is|are) not to be\b": "must not be",
    r"\blearns? (of|that|from)\b": "see, receive, note",
    r"\bof which\b": "whose, that, or a sentence of its own",
    r"\bso (it is (?!not known|the same|no)|is|are|do|does) (?!too)": "as is, as does, or a sentence with a subject",
    r"\bsome \d": "about",
    r"\b(systemd|observer|listener|progress)\b:? is told\b": "is notified, receives",
    r"\bwaits? (no more|any more|no longer)\b": "has timed out",
    r"\bwhom\b": "a noun",
    r"\b(told|tells?)\b": "says, reports, returns, shows",
    r"(?<!user )(?<!users )(?<!operator )(?<!operators )\bwho\b": "that, which, or a noun",
    r"\bturned down\b": "rejected",
    r"\bsent on\b(?! (a|its|one|the)\b)": "forwarded",
    r"\bcontrol room\b": "operators",
}


def prose(path):
    """The text of a document, or what the docstrings, comments and strings of a module say."""
    source = path.read_text()
    if path.suffix != ".py":
        return re.sub(r"\s+", " ", source)
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = (each.string.lstrip("#: ") for each in tokens if each.type == tokenize.COMMENT)
    strings = (
        each.value for each in walked(path) if isinstance(each, ast.Constant) and isinstance(each.value, str)
    )
    return "\n".join([re.sub(r"\s+", " ", text) for text in (" ".join(comments), *strings)])


@pytest.fixture(scope="module")
def texts():
    return {str(path.relative_to(ROOT)): prose(path) for path in (*DOCUMENTS, *MODULES)}


@pytest.mark.parametrize(("pattern", "better"), BETTER.items())
def test_words(texts, pattern, better):
    found = [
        f"{name}: {text[max(0, match.start() - 30) : match.end() + 30]}"
        for name, text in texts.items()
        for match in re.finditer(pattern, text, re.IGNORECASE)
    ]
    assert found == [], better
