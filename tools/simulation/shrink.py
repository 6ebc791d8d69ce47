"""Makes a plan smaller as long as it still violates the promise in the same way."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from tools.simulation.plan import Limits, Plan

Fails = Callable[[Plan], bool]

# Orders of tasks that are tried for each smaller plan.
SEEDS = 6

# Plans that are tried in all.
MOST = 1500

SIMPLE = Limits()


def shrink(plan: Plan, fails: Fails) -> Plan:
    """Return the smallest plan that was found.

    Args:
        plan: One that fails.
        fails: Runs a plan; whether it fails in the way that matters.
    """
    budget = iter(range(MOST))

    def first_failing(smaller: Plan) -> Plan | None:
        origin = smaller.seed.partition("~")[0]
        seeds = [smaller.seed, *(f"{origin}~{number}" for number in range(1, SEEDS))]
        for seed in seeds:
            candidate = replace(smaller, seed=seed)
            if next(budget, None) is not None and fails(candidate):
                return candidate
        return None

    found: Plan | None = plan
    while found is not None:
        plan = found
        found = next(filter(None, map(first_failing, smaller_plans(plan))), None)
    return plan


def smaller_plans(plan: Plan) -> Iterator[Plan]:
    """Yield plans with one thing less, the largest cuts first."""
    for index in range(len(plan.jobs)):
        if len(plan.jobs) > 1:
            yield replace(plan, jobs=plan.jobs[:index] + plan.jobs[index + 1 :])
    for index in range(len(plan.events)):
        yield replace(plan, events=plan.events[:index] + plan.events[index + 1 :])
    for index, job in enumerate(plan.jobs):
        for changes in (
            {"instances": job.instances[: len(job.instances) // 2]} if len(job.instances) > 1 else {},
            {"repeats": job.repeats // 2} if job.repeats else {},
            {"evacuates": False} if job.evacuates else {},
        ):
            if changes:
                yield replace(
                    plan, jobs=(*plan.jobs[:index], replace(job, **changes), *plan.jobs[index + 1 :])
                )
    yield from _simpler_limits(plan)


def _simpler_limits(plan: Plan) -> Iterator[Plan]:
    limits = plan.limits
    if limits.workers > 1:
        yield replace(plan, limits=replace(limits, workers=limits.workers - 1))
    if limits.hosts > 2:
        yield replace(plan, limits=replace(limits, hosts=limits.hosts - 1))
    for name in ("preemption", "subset", "batch", "placement_timeout", "threads", "room"):
        simple = 0.0 if name == "preemption" else getattr(SIMPLE, name)
        if getattr(limits, name) != simple:
            yield replace(plan, limits=replace(limits, **{name: simple}))
