"""The kept inputs: files of JSON by target, and the messages of real services.

A file has one input. What would make it large is abbreviated: ``{"$repeat": ["x", 4194304]}`` stands for a
text or list that is repeated, ``{"$nest": [1, 500]}`` for a value inside so many lists.
"""

import json
from pathlib import Path
from typing import Any

from tests.unit.fuzzing.mutations import nested

DIRECTORY = Path(__file__).parent / "kept"
EXAMPLES = Path(__file__).parents[2] / "examples"


def load(target: str) -> dict[str, Any]:
    """Return the kept inputs of a target by their names."""
    files = sorted((DIRECTORY / target).glob("*.json"))
    return {file.stem: json.loads(file.read_text(), object_hook=expanded) for file in files}


def captured(kind: str) -> dict[str, Any]:
    """Return the captured requests of real services whose file name begins so: method, args and context."""
    messages = {file.stem: json.loads(file.read_text())["message"] for file in EXAMPLES.glob(f"{kind}*.json")}
    return {name: messages[name] for name in sorted(messages) if "method" in messages[name]}


def expanded(value: dict[str, Any]) -> Any:
    """Return what an object of a file stands for."""
    if set(value) == {"$repeat"}:
        what, times = value["$repeat"]
        return what * times
    return nested(*value["$nest"]) if set(value) == {"$nest"} else value
