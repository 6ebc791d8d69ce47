"""The captured messages of tests/examples, and envelopes as in them."""

import json
import pathlib

from scheduler import objects
from scheduler.objects import base

DIRECTORY = pathlib.Path(__file__).parents[1] / "examples"
NAMES = sorted(path.stem for path in DIRECTORY.glob("*.json"))


def message(name):
    return json.loads((DIRECTORY / f"{name}.json").read_text())["message"]


def spec(name):
    return message(name)["args"]["spec_obj"]


def envelope(name, data, version="1.0", **more):
    """An object as it is sent; ``more`` are other members of the envelope."""
    return {base.NAME: name, base.NAMESPACE: "nova", base.VERSION: version, base.DATA: data, **more}


def envelopes(value):
    """The outermost envelopes in a piece of JSON."""
    if objects.is_envelope(value):
        yield value
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from envelopes(item)


def settled(value):
    """JSON with the order taken out of lists that stand for sets."""
    if isinstance(value, dict):
        return {k: sorted(v) if k == "nova_object.changes" else settled(v) for k, v in value.items()}
    return [settled(item) for item in value] if isinstance(value, (list, tuple)) else value


def as_json(obj):
    return settled(json.loads(json.dumps(obj.obj_to_primitive())))
