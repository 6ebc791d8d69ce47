"""Aggregates that offer what a flavor's extra specs ask for (spec: filters-and-weighers 2.12)."""

from typing import Any

from scheduler.filters.aggregate_rule import AggregateRule, Judge
from scheduler.filters.extra_specs_ops import Requirement
from scheduler.filters.utils import extra_specs
from scheduler.hosts.aggregates import AggregateSet

SCOPE = "aggregate_instance_extra_specs"


class AggregateInstanceExtraSpecsFilter(AggregateRule):
    """Each extra spec, bare or scoped ``aggregate_instance_extra_specs:``, is met by metadata of some
    aggregate.

    Any of several comma-separated values may meet it. Raises ``ValueError`` where a numeric requirement, or
    all the metadata it is compared with, are no numbers.
    """

    def applies(self, request: Any) -> bool:
        return bool(_requirements(request))

    def judge(self, request: Any) -> Judge:
        requirements = [(key, Requirement(text)) for key, text in _requirements(request)]

        def objection(aggregates: AggregateSet) -> str:
            metadata = aggregates.metadata
            for key, requirement in requirements:
                values = metadata.get(key)
                if not values:
                    return f"no aggregate defines {key}"
                if not any(map(requirement.holds, sorted(values, key=_numbers_first))):
                    return f"aggregate {key}={sorted(values)} does not satisfy '{requirement}'"
            return ""

        return objection


def _requirements(request: Any) -> list[tuple[str, str]]:
    """(metadata key, requirement) of the extra specs that concern aggregates."""
    parts = [(*_split(key), text) for key, text in extra_specs(request).items()]
    return [(key, text) for scope, key, text in parts if scope in (None, SCOPE)]


def _split(key: str) -> tuple[str | None, str]:
    scope, colon, rest = key.partition(":")
    return (scope, rest) if colon else (None, key)


def _numbers_first(value: str) -> tuple[bool, str]:
    try:
        float(value)
    except ValueError:
        return True, value
    return False, value
