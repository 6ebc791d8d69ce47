"""``threading``, ``time``, ``queue``, ``random``, ``uuid``, ``os`` and others on the runtime.

Modules that are imported with these (see ``imports``) block, sleep and draw as the active ``Runtime`` has it.
``queue`` and ``concurrent.futures`` are the standard library's own code on the primitives of this module.
Without an active runtime, as while modules are imported, locks are free and nothing can be waited for.
"""

from collections.abc import Callable
import concurrent.futures
import concurrent.futures._base
import concurrent.futures.thread
import contextlib
import os as real_os
import pathlib
import queue as real_queue
import random as real_random
import threading as real_threading
import time as real_time
from types import ModuleType
from typing import Any
import uuid as real_uuid

from tools.simulation.runtime import Deadlock, Runtime, Stopped, Task

# The wall clock at the start of a history: 2026-01-01 00:00:00 UTC.
EPOCH = 1_767_225_600.0

# What the interpreter says when the system has no thread left.
NO_THREAD = "can't start new thread"


class _Nothing:
    """What there is without a runtime: one thread, and no time to wait."""

    clock = 0.0
    closed = False
    current: Task | None = None

    def step(self) -> None:
        return

    def wake_any(self, _waiters: list[Task]) -> None:
        return

    def wake_all(self, _waiters: list[Task]) -> None:
        return

    def wait(self, _waiters: list[Task], _timeout: float | None = None) -> bool:
        raise Deadlock("nothing can be waited for without a simulation")


_NOTHING = _Nothing()


def _active() -> Any:
    return Runtime.active or _NOTHING


def _me() -> object:
    return _active().current or _NOTHING


def _deadline(timeout: float | None) -> float | None:
    return None if timeout is None or timeout < 0 else _active().clock + timeout


def _left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - _active().clock)


class Lock:
    """As ``threading.Lock``; the waiter that gets it next is drawn from the seed."""

    def __init__(self) -> None:
        self._owner: object | None = None
        self._waiters: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock; false if it is not free in time."""
        _active().step()
        return self._take(_deadline(timeout if blocking else 0.0))

    def release(self) -> None:
        """Free the lock."""
        runtime = _active()
        if self._owner is None and not runtime.closed:
            raise RuntimeError("release unlocked lock")
        self._free()
        runtime.step()

    def locked(self) -> bool:
        """Return whether it is held."""
        return self._owner is not None

    def _take(self, deadline: float | None) -> bool:
        runtime = _active()
        while self._owner is not None:
            left = _left(deadline)
            if left == 0.0 or not runtime.wait(self._waiters, left):
                return False
        self._owner = _me()
        return True

    def _free(self) -> int:
        self._owner = None
        _active().wake_any(self._waiters)
        return 1

    def _retake(self, _count: int) -> None:
        self._take(None)

    def _mine(self) -> bool:
        return self._owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_details: object) -> None:
        self.release()


class RLock(Lock):
    """As ``threading.RLock``."""

    def __init__(self) -> None:
        super().__init__()
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take the lock once more, or for the first time; false if it is not free in time."""
        if not self._mine() and not super().acquire(blocking, timeout):
            return False
        self._count += 1
        return True

    def release(self) -> None:
        """Undo one ``acquire``."""
        if not self._mine():
            if _active().closed:
                return
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if not self._count:
            super().release()

    def _free(self) -> int:
        count, self._count = self._count, 0
        super()._free()
        return count

    def _retake(self, count: int) -> None:
        self._take(None)
        self._count = count

    def _mine(self) -> bool:
        return self._owner is _me()


class Condition:
    """As ``threading.Condition``."""

    def __init__(self, lock: Lock | None = None) -> None:
        self._lock = RLock() if lock is None else lock
        self._waiters: list[Task] = []
        self.acquire = self._lock.acquire
        self.release = self._lock.release

    def wait(self, timeout: float | None = None) -> bool:
        """Free the lock until notified: true; or until the time is over: false."""
        if not self._lock._mine():  # noqa: SLF001 - as the standard library's
            raise RuntimeError("cannot wait on un-acquired lock")
        count = self._lock._free()  # noqa: SLF001
        try:
            return _active().wait(self._waiters, timeout)
        finally:
            self._lock._retake(count)  # noqa: SLF001

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        """Wait until the predicate holds; its last value."""
        deadline = _deadline(timeout)
        result = predicate()
        while not result:
            left = _left(deadline)
            if left == 0.0:
                break
            self.wait(left)
            result = predicate()
        return result

    def notify(self, n: int = 1) -> None:
        """Wake those who waited longest."""
        for _ in range(min(n, len(self._waiters))):
            _active().wake(self._waiters.pop(0))

    def notify_all(self) -> None:
        """Wake all who wait."""
        _active().wake_all(self._waiters)

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_details: object) -> None:
        self._lock.release()


class Event:
    """As ``threading.Event``."""

    def __init__(self) -> None:
        self._set = False
        self._waiters: list[Task] = []

    def is_set(self) -> bool:
        """Return whether it was set."""
        return self._set

    def set(self) -> None:
        """Set it, and wake all who wait."""
        self._set = True
        _active().wake_all(self._waiters)
        _active().step()

    def clear(self) -> None:
        """Set it no more."""
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is set; false if the time is over before."""
        _active().step()
        deadline = _deadline(timeout)
        while not self._set:
            if not _active().wait(self._waiters, _left(deadline)):
                break
        return self._set


class Semaphore:
    """As ``threading.Semaphore``."""

    def __init__(self, value: int = 1) -> None:
        if value < 0:
            raise ValueError("semaphore initial value must be >= 0")
        self._value = value
        self._waiters: list[Task] = []

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        """Take one; false if none is free in time."""
        runtime = _active()
        runtime.step()
        deadline = _deadline(timeout if blocking else 0.0)
        while not self._value:
            left = _left(deadline)
            if left == 0.0 or not runtime.wait(self._waiters, left):
                return False
        self._value -= 1
        return True

    def release(self, n: int = 1) -> None:
        """Free some."""
        self._value += n
        for _ in range(n):
            _active().wake_any(self._waiters)
        _active().step()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_details: object) -> None:
        self.release()


class Thread:
    """As ``threading.Thread``: a task of the process that starts it."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., Any] | None = None,
        name: str | None = None,
        args: tuple = (),
        kwargs: dict | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self._target, self._args, self._kwargs = target, args, kwargs or {}
        self.name = name or f"Thread-{getattr(target, '__name__', 'run')}"
        self.daemon = bool(daemon)
        self._task: Task | None = None

    @property
    def ident(self) -> int | None:
        """Of the task; None before the start."""
        return None if self._task is None else id(self._task)

    def start(self) -> None:
        """Start the task; ``RuntimeError`` where the history lets starts of threads fail."""
        if self._task is not None:
            raise RuntimeError("threads can only be started once")
        runtime = _active()
        process = runtime.current.process
        if process.thread_starts_fail:
            raise RuntimeError(NO_THREAD)
        self._task = runtime.spawn(process, self.name, self._begin)
        self._task.owner = self
        runtime.step()

    def run(self) -> None:
        """Call the target."""
        if self._target is not None:
            self._target(*self._args, **self._kwargs)

    def join(self, timeout: float | None = None) -> None:
        """Wait until it has ended."""
        if self._task is None:
            raise RuntimeError("cannot join thread before it is started")
        deadline = _deadline(timeout)
        while not self._task.done:
            left = _left(deadline)
            if left == 0.0 or not _active().wait(self._task.waiters, left):
                return

    def is_alive(self) -> bool:
        """Return whether it was started and has not ended."""
        return self._task is not None and not self._task.done

    def _begin(self) -> None:
        runtime = _active()
        try:
            self.run()
        except (Stopped, SystemExit):
            return
        except BaseException as error:  # noqa: BLE001 - as the interpreter does at the end of a thread
            runtime.crashed(runtime.current.process, self.name, error)


class _MainThread:
    name = "MainThread"
    daemon = False
    ident = 1

    def is_alive(self) -> bool:
        return True


_MAIN = _MainThread()


def current_thread() -> Any:
    """As ``threading.current_thread``."""
    task = _active().current
    return (task and task.owner) or _MAIN


def get_ident() -> int:
    """As ``threading.get_ident``."""
    return id(_me())


# -- time and chance -----------------------------------------------------------------------------------------


def monotonic() -> float:
    """As ``time.monotonic``; no step, as time does not pass while a task runs."""
    return _active().clock


def monotonic_ns() -> int:
    """As ``time.monotonic_ns``."""
    return int(_active().clock * 1e9)


def wall_time() -> float:
    """As ``time.time``."""
    return EPOCH + _active().clock


def sleep(seconds: float) -> None:
    """As ``time.sleep``."""
    runtime = Runtime.active
    if runtime is None:
        raise Deadlock("nothing can sleep without a simulation")
    runtime.sleep(seconds)


def _chance(name: str) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        source = Runtime.active.chance if Runtime.active else real_random
        return getattr(source, name)(*args, **kwargs)

    return draw


def uuid4() -> real_uuid.UUID:
    """As ``uuid.uuid4``."""
    return real_uuid.UUID(int=_chance("getrandbits")(128), version=4)


class SeededRandom(real_random.Random):
    """As ``random.Random``; without a seed it takes one from the history."""

    def __init__(self, seed: Any = None) -> None:
        if seed is None and Runtime.active:
            seed = Runtime.active.chance.random()
        super().__init__(seed)


# -- processes -----------------------------------------------------------------------------------------------


def getpid() -> int:
    """As ``os.getpid``."""
    task = _active().current
    return task.process.pid if task else real_os.getpid()


def clear() -> None:
    """Forget the threads of a history: a killed one would be kept, with all of it, until the program ends."""
    MODULES["concurrent.futures.thread"]._threads_queues.clear()  # noqa: SLF001


# -- modules -------------------------------------------------------------------------------------------------


def _module(real: ModuleType, **replaced: Any) -> ModuleType:
    """Return a module that has these, and everything else from the real one."""
    module = ModuleType(real.__name__, real.__doc__)
    module.__dict__.update({name: value for name, value in vars(real).items() if not name.startswith("__")})
    module.__dict__.update(replaced)
    return module


def _copy(real: ModuleType, import_: Callable[..., Any], **replaced: Any) -> ModuleType:
    """Execute the source of a module of the standard library once more, with other imports."""
    module = ModuleType(real.__name__, real.__doc__)
    builtins = dict(vars(__import__("builtins")), __import__=import_)
    module.__dict__.update(__builtins__=builtins, __file__=real.__file__, __package__=real.__package__)
    source = pathlib.Path(real.__file__).read_text(encoding="utf-8")
    exec(compile(source, real.__file__, "exec"), module.__dict__)  # noqa: S102
    module.__dict__.update(replaced)
    return module


def _importer(modules: dict[str, ModuleType]) -> Callable[..., Any]:
    """Return an ``__import__`` that knows these modules first."""

    def virtual_import(
        name: str, namespace: Any = None, local: Any = None, fromlist: Any = (), level: int = 0
    ) -> Any:
        if level == 0 and name in modules:
            return modules[name] if fromlist or "." not in name else modules[name.partition(".")[0]]
        return __import__(name, namespace, local, fromlist, level)

    return virtual_import


def _make() -> dict[str, ModuleType]:
    modules: dict[str, ModuleType] = {}
    import_ = _importer(modules)
    modules["threading"] = _module(
        real_threading,
        Lock=Lock, RLock=RLock, Condition=Condition, Event=Event, Semaphore=Semaphore,
        Thread=Thread, current_thread=current_thread, get_ident=get_ident,
        _register_atexit=lambda *_args: None, main_thread=lambda: _MAIN,
    )  # fmt: skip
    del modules["threading"].Timer  # a real thread, which would break the order of the virtual ones
    modules["time"] = _module(
        real_time, monotonic=monotonic, monotonic_ns=monotonic_ns, time=wall_time, sleep=sleep,
        perf_counter=monotonic, thread_time=lambda: 0.0,
    )  # fmt: skip
    draws = "random uniform choice choices shuffle sample randint randrange expovariate gauss".split()
    modules["random"] = _module(real_random, Random=SeededRandom, **{name: _chance(name) for name in draws})
    modules["uuid"] = _module(real_uuid, uuid4=uuid4)
    modules["os"] = _module(real_os, getpid=getpid)
    del modules["os"].register_at_fork  # which code that has to do without it looks for
    modules["os.path"] = real_os.path
    modules["queue"] = _copy(real_queue, import_)
    modules["queue"].SimpleQueue = modules["queue"]._PySimpleQueue  # noqa: SLF001 - the other one is C
    base = _copy(concurrent.futures._base, import_)  # noqa: SLF001
    modules["concurrent.futures._base"] = base
    package = _module(
        concurrent.futures,
        **{name: vars(base)[name] for name in concurrent.futures.__all__ if name in vars(base)},
    )
    package._base = base  # noqa: SLF001
    modules["concurrent.futures"] = package
    modules["concurrent"] = _module(concurrent, futures=package)
    pool = _copy(concurrent.futures.thread, import_)
    # One for all processes of a history, though each has its own: a killed one would hold it for the others.
    pool._global_shutdown_lock = contextlib.nullcontext()  # noqa: SLF001
    modules["concurrent.futures.thread"] = package.thread = pool
    package.ThreadPoolExecutor = pool.ThreadPoolExecutor
    return modules


MODULES = _make()
virtual_import = _importer(MODULES)
