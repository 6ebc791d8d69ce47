"""How often a build was tried and where: the ``retry`` entry of ``filter_properties``.

spec: host-state-and-cells 7.3
"""

from conductor_client import errors


def first(spec, max_attempts):
    """Filter properties of a new build. Without ``retry`` in them a failure is final.

    That is so if only one attempt is allowed (nova option ``[scheduler]/max_attempts``) or the user named the
    host.
    """
    if max_attempts == 1 or _is_forced(spec):
        return {}
    return {"retry": {"num_attempts": 1, "hosts": []}}


def again(filter_properties, max_attempts):
    """Filter properties of the next attempt.

    Raises ``MaxRetriesExceeded`` when there may be none.
    """
    retry = filter_properties["retry"]
    attempt = retry["num_attempts"] + 1
    if attempt > max_attempts:
        raise errors.MaxRetriesExceeded(f"All {max_attempts} attempts have failed.")
    return {**filter_properties, "retry": {**retry, "num_attempts": attempt}}


def on_host(filter_properties, selection):
    """Filter properties as the compute gets them: its host and node are on the list of those tried."""
    limits = {"limits": selection.limits}
    retry = filter_properties.get("retry")
    if retry is None:
        return {**filter_properties, **limits}
    tried = [*retry["hosts"], [selection.service_host, selection.nodename]]
    return {**filter_properties, **limits, "retry": {**retry, "hosts": tried}}


def _is_forced(spec):
    return len(spec.force_hosts or ()) == 1 or len(spec.force_nodes or ()) == 1
