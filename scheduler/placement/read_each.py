"""Small reads that are made some at a time."""

from collections.abc import Callable, Sequence
import contextvars
import threading
from typing import TypeVar

from scheduler.bounds import deadline
from scheduler.placement.errors import PlacementUnreachable

Found = TypeVar("Found")


def read_each(
    read: Callable[[str], Found], names: Sequence[str], at_once: int, *, in_any_case: bool = False
) -> dict[str, Found]:
    """Read what some names stand for, some at a time.

    Args:
        read: Reads one. It bounds its own time.
        at_once: How many are read at the same time at most; fewer if the system has no thread left.
        in_any_case: Also after the deadline of the request, as for what follows a claim.

    Returns:
        What was read, by name in the given order.

    Raises:
        PlacementUnreachable: The deadline has passed.
        Exception: What ``read`` raises.
    """
    left = iter(names)
    results: dict[str, Found] = {}
    errors: list[BaseException] = []

    def work() -> None:
        try:
            while not errors and (name := next(left, None)) is not None:
                if deadline.current().expired and not in_any_case:
                    raise PlacementUnreachable("the caller no longer waits for an answer")
                results[name] = read(name)
        except BaseException as error:  # noqa: BLE001 - the thread of the request raises it
            errors.append(error)

    threads = []
    for _ in range(min(at_once, len(names)) - 1):
        run = contextvars.copy_context().run  # the deadline of the request is the thread's too
        thread = threading.Thread(target=run, args=(work,), name="reads", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            break
        threads.append(thread)
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return {name: results[name] for name in names}
