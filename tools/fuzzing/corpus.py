"""The kept inputs: files of JSON by target, and the messages of real services.

A file has one input. What would make it large is abbreviated: ``{"$repeat": ["x", 4194304]}`` stands for a
text or list that is repeated, ``{"$nest": [1, 500]}`` for a value inside so many lists.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

from tools.fuzzing.mutation import copied

ROOT = Path(__file__).resolve().parents[2]
DIRECTORY = ROOT / "tests" / "fuzz_corpus"
EXAMPLES = ROOT / "tests" / "examples"
REPEAT, NEST = "$repeat", "$nest"
#: Texts and lists that repeat one item are abbreviated from this length on.
SHORTEST_REPEAT = 1000


def load(target: str, directory: Path = DIRECTORY) -> dict[str, Any]:
    """Return the kept inputs of a target by their names."""
    files = sorted((directory / target).glob("*.json"))
    return {file.stem: expanded(json.loads(file.read_text())) for file in files}


def captured(kind: str) -> dict[str, Any]:
    """Return the captured requests of real services whose file name begins so: method, args and context."""
    found = {}
    for file in sorted(EXAMPLES.glob(f"{kind}*.json")):
        message = json.loads(file.read_text())["message"]
        if "method" in message:
            found[file.stem] = message
    return found


def save(target: str, value: Any, directory: Path = DIRECTORY) -> Path:
    """Keep an input under a name that its content gives, and return its file."""
    text = json.dumps(abbreviated(copied(value)), indent=1)
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = directory / target / f"found-{name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")
    return path


def expanded(value: Any) -> Any:
    """Return a value with its abbreviations spelled out."""
    if isinstance(value, list):
        return [expanded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if set(value) == {REPEAT}:
        what, times = value[REPEAT]
        return expanded(what) * times
    if set(value) == {NEST}:
        inner, times = value[NEST]
        for _ in range(times):
            inner = [inner]
        return inner
    return {key: expanded(item) for key, item in value.items()}


def abbreviated(value: Any) -> Any:
    """Return a value with long repetitions of one character or of one item abbreviated."""
    if isinstance(value, str | list) and len(value) >= SHORTEST_REPEAT and value == value[:1] * len(value):
        return {REPEAT: [value[:1], len(value)]}
    if isinstance(value, list):
        return [abbreviated(item) for item in value]
    if isinstance(value, dict):
        return {key: abbreviated(item) for key, item in value.items()}
    return value
