"""The kept inputs: files of JSON by target, and the messages of real services.

A file has one input. What would make it large is abbreviated: ``{"$repeat": ["x", 4194304]}`` stands for a
text or list that is repeated, ``{"$nest": [1, 500]}`` for a value inside so many lists.
"""

import json
from pathlib import Path
from typing import Any

DIRECTORY = Path(__file__).parent / "kept"
EXAMPLES = Path(__file__).parents[2] / "examples"
REPEAT, NEST = "$repeat", "$nest"


def load(target: str) -> dict[str, Any]:
    """Return the kept inputs of a target by their names."""
    files = sorted((DIRECTORY / target).glob("*.json"))
    return {file.stem: expanded(json.loads(file.read_text())) for file in files}


def captured(kind: str) -> dict[str, Any]:
    """Return the captured requests of real services whose file name begins so: method, args and context."""
    found = {}
    for file in sorted(EXAMPLES.glob(f"{kind}*.json")):
        message = json.loads(file.read_text())["message"]
        if "method" in message:
            found[file.stem] = message
    return found


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
