"""Flavor extra specs that become parts of the Placement query (spec: placement-and-workflow 1.3)."""

from collections.abc import Mapping
import re

import os_resource_classes
from oslo_log import log as logging

from scheduler.logs import RateLimitedLogger
from scheduler.request.groups import ResourceRequest

LOG = logging.getLogger(f"nova.{__name__}")
_REPEATED = RateLimitedLogger(LOG)

_KEY = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.*)", re.DOTALL)
_POLICIES = ("none", "isolate")


def scan(extra_specs: Mapping[str, str], request: ResourceRequest) -> None:
    """Add ``resources...``, ``trait...`` and ``group_policy``; ignore what is malformed, with a warning.

    A malformed key still makes its group: it counts when group_policy gets a default.
    """
    for key, value in extra_specs.items():
        match = _KEY.fullmatch(key)
        if match:
            kind, suffix, name = match.groups(default="")
            added = _ADD[kind](request, suffix, name, value)
        elif key == "group_policy":
            added = _set_policy(request, value)
        else:
            continue
        if not added:
            text = "Extra spec %s=%r of the flavor is malformed and has no effect"
            _REPEATED.warning((key, value), text, key, value)


def is_resource_class(name: str) -> bool:
    """Return whether a name is that of a standard or a custom resource class."""
    return name in os_resource_classes.STANDARDS or name.startswith(os_resource_classes.CUSTOM_NAMESPACE)


def amount_of(text: str) -> int | None:
    """Return the whole number of at least 0 that a text is, as Python's ``int`` reads it, or None."""
    try:
        amount = int(text)
    except ValueError:
        return None
    return amount if amount >= 0 else None


def _add_resource(request: ResourceRequest, suffix: str, name: str, value: str) -> bool:
    group = request.group(suffix)
    amount = amount_of(value)
    if amount is None or not is_resource_class(name):
        return False
    group.resources[name] = amount
    return True


def _add_trait(request: ResourceRequest, suffix: str, name: str, value: str) -> bool:
    group = request.group(suffix)
    if value == "required":
        group.required.add(name)
    elif value == "forbidden":
        group.forbidden.add(name)
    else:
        return False
    return True


def _set_policy(request: ResourceRequest, value: str) -> bool:
    if value not in _POLICIES:
        return False
    request.group_policy = value
    return True


_ADD = {"resources": _add_resource, "trait": _add_trait}
