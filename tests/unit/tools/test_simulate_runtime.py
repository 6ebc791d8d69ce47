"""The virtual clock, threads and processes that the simulation runs on."""

import contextlib
import sys
import threading as real_threading
from types import ModuleType

import pytest

from tools.simulation import imports, runtime, threads
from tools.simulation.runtime import Deadlock, Endless, Runtime

THREADING, QUEUE = threads.MODULES["threading"], threads.MODULES["queue"]
FUTURES, TIME = threads.MODULES["concurrent.futures"], threads.MODULES["time"]
RANDOM, OS = threads.MODULES["random"], threads.MODULES["os"]


def run(*functions, seed=1, preemption=0.5, until=1000.0):
    """Run functions as tasks of one process; returns the runtime after its end."""
    with Runtime(seed, preemption) as runtime:
        process = runtime.process("p")
        for number, function in enumerate(functions):
            runtime.spawn(process, f"t{number}", function)
        runtime.run(until)
    return runtime


def counting(events, name, lock):
    def work():
        for number in range(5):
            with lock:
                events.append((name, number))

    return work


def order_of(seed):
    events, lock = [], THREADING.Lock()
    run(*(counting(events, name, lock) for name in "abc"), seed=seed)
    return events


def test_one_seed_gives_one_order():
    assert order_of(7) == order_of(7)


def test_different_seeds_give_different_orders():
    assert len({tuple(order_of(seed)) for seed in range(10)}) > 5


def test_every_task_gets_its_turn_first_with_some_seed():
    assert {order_of(seed)[0][0] for seed in range(20)} == {"a", "b", "c"}


def lock_for_ever():
    lock = THREADING.Lock()
    while True:
        with lock:
            pass


def sleep_for_ever():
    while True:
        TIME.sleep(0.0)


@pytest.mark.parametrize("task", [lock_for_ever, sleep_for_ever])
def test_a_history_that_does_not_end_has_a_bound(task, monkeypatch):
    monkeypatch.setattr(runtime, "MOST_STEPS", 1000)
    with pytest.raises(Endless, match="did not end within 1000 steps"):
        run(task, preemption=0.0)


def test_time_moves_only_when_all_tasks_wait():
    seen = []

    def sleeper(seconds):
        def work():
            TIME.sleep(seconds)
            seen.append((seconds, TIME.monotonic()))

        return work

    run(sleeper(3.0), sleeper(1.0), sleeper(2.0))
    assert seen == [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]


def test_running_ends_at_the_given_time():
    seen = []

    def work():
        TIME.sleep(10.0)
        seen.append("late")

    assert run(work, until=5.0).clock == 5.0
    assert seen == []


def test_the_wall_clock_goes_with_the_monotonic_one():
    seen = []
    run(lambda: (TIME.sleep(5), seen.append(TIME.time())))
    assert seen == [threads.EPOCH + 5]


def test_a_lock_excludes_others():
    inside, most = [], []
    lock = THREADING.Lock()

    def work():
        for _ in range(10):
            with lock:
                inside.append(1)
                TIME.sleep(0.1)
                most.append(len(inside))
                inside.pop()

    run(work, work, work)
    assert set(most) == {1}
    assert len(most) == 30


def test_a_lock_is_waited_for_no_longer_than_asked():
    seen = []
    lock = THREADING.Lock()

    def holder():
        with lock:
            TIME.sleep(10)

    def waiter():
        TIME.sleep(1)
        seen.append((lock.acquire(timeout=2), TIME.monotonic(), lock.acquire(blocking=False)))

    run(holder, waiter)
    assert seen == [(False, 3.0, False)]


def test_a_free_lock_cannot_be_released():
    runtime = run(THREADING.Lock().release)
    assert [str(error) for _, _, error in runtime.crashes] == ["release unlocked lock"]


def test_an_rlock_belongs_to_its_task():
    lock, seen = THREADING.RLock(), []

    def owner():
        with lock, lock:
            TIME.sleep(5)

    def other():
        TIME.sleep(1)
        seen.append(lock.acquire(timeout=1))
        with contextlib.suppress(RuntimeError):
            lock.release()
            seen.append("released")

    run(owner, other)
    assert seen == [False]


@pytest.mark.parametrize("make_lock", [THREADING.Lock, THREADING.RLock], ids=["lock", "rlock"])
@pytest.mark.parametrize("seed", range(5))
def test_a_condition_wakes_who_waits_with_the_lock_held(make_lock, seed):
    lock, seen, items = make_lock(), [], []
    condition = THREADING.Condition(lock)

    def consumer():
        with condition:
            assert condition.wait_for(lambda: items, timeout=100)
            seen.append(items.pop())

    def producer():
        for number in range(2):
            with condition:
                items.append(number)
                condition.notify()

    run(consumer, consumer, producer, seed=seed)
    assert sorted(seen) == [0, 1]


def test_a_condition_without_a_notification_times_out():
    seen = []
    condition = THREADING.Condition()

    def work():
        with condition:
            seen.extend([condition.wait(4), TIME.monotonic(), condition.wait_for(lambda: 0, 3)])

    run(work)
    assert seen == [False, 4.0, 0]


def test_an_event_wakes_all():
    event, seen = THREADING.Event(), []

    def waiter():
        seen.append(event.wait(10))

    def setter():
        TIME.sleep(1)
        event.set()

    run(waiter, waiter, setter, lambda: seen.append(event.wait(0.5)))
    assert sorted(seen) == [False, True, True]


def test_a_semaphore_has_as_many_seats_as_it_was_given():
    seats, inside, most = THREADING.Semaphore(2), [], []

    def work():
        with seats:
            inside.append(1)
            TIME.sleep(1)
            most.append(len(inside))
            inside.pop()

    run(work, work, work, work)
    assert max(most) == 2


def test_a_thread_is_joined_and_has_a_name():
    seen = []

    def parent():
        thread = THREADING.Thread(target=lambda: TIME.sleep(5), name="child", daemon=True)
        thread.start()
        thread.join(1)
        seen.append((thread.is_alive(), TIME.monotonic()))
        thread.join()
        seen.append((thread.is_alive(), TIME.monotonic()))

    run(parent)
    assert seen == [(True, 1.0), (False, 5.0)]


def test_the_start_of_a_thread_can_fail():
    seen = []

    def work():
        Runtime.active.current.process.thread_starts_fail = True
        with pytest.raises(RuntimeError, match="can't start new thread"):
            THREADING.Thread(target=seen.append, args=(1,)).start()
        seen.append("refused")

    run(work)
    assert seen == ["refused"]


def test_an_error_that_ends_a_thread_is_noted():
    def work():
        THREADING.Thread(target=lambda: 1 / 0, name="child").start()

    ((process, name, error),) = run(work).crashes
    assert (process.name, name, type(error)) == ("p", "child", ZeroDivisionError)


def test_no_thread_is_a_real_one():
    kinds = [each for name, each in vars(THREADING).items() if isinstance(each, type) and name[0] != "_"]
    assert not [each for each in kinds if issubclass(each, real_threading.Thread)]


def test_queues_block_and_time_out():
    queue, seen = QUEUE.Queue(1), []

    def producer():
        for number in range(3):
            queue.put(number)

    def consumer():
        TIME.sleep(1)
        seen.extend(queue.get() for _ in range(3))
        with pytest.raises(QUEUE.Empty):
            queue.get(timeout=5)
        seen.append(TIME.monotonic())

    run(producer, consumer)
    assert seen == [0, 1, 2, 6.0]


def test_futures_are_waited_for_in_virtual_time():
    future, seen = FUTURES.Future(), []

    def waiter():
        with pytest.raises(TimeoutError):
            future.result(1)
        seen.append(future.result(10))

    run(waiter, lambda: (TIME.sleep(3), future.set_result("done")))
    assert seen == ["done"]


def test_a_pool_runs_tasks():
    seen = []

    def work():
        with FUTURES.ThreadPoolExecutor(2) as pool:
            seen.extend(pool.map(lambda number: (TIME.sleep(1), number)[1], range(4)))
        seen.append(TIME.monotonic())

    run(work)
    assert seen == [0, 1, 2, 3, 2.0]


def test_chance_is_drawn_from_the_seed():
    def drawn(seed):
        seen = []
        run(lambda: seen.extend([RANDOM.random(), RANDOM.choice("abc"), RANDOM.Random().random()]), seed=seed)
        return seen

    assert drawn(3) == drawn(3) != drawn(4)


# -- processes -----------------------------------------------------------------------------------------------


def test_a_killed_process_runs_no_cleanup():
    seen = []

    def work():
        try:
            TIME.sleep(10)
        except BaseException:
            seen.append("caught")
            raise
        finally:
            if not Runtime.active.closed:
                seen.append("cleanup")

    with Runtime(1) as runtime:
        process = runtime.process("p")
        process.at_exit.append(lambda: seen.append("exit"))
        runtime.spawn(process, "t", work)
        runtime.after(5, runtime.kill, process)
        runtime.run(100)
        assert seen == ["exit"]
        assert not process.alive


def test_a_process_can_be_killed_at_a_step_of_its_own():
    seen = []

    def work():
        for number in range(10):
            seen.append(number)
            Runtime.active.step()

    with Runtime(1) as runtime:
        process = runtime.process("p")
        runtime.light_fuse(process, 3, lambda: runtime.kill(process))
        runtime.spawn(process, "t", work)
        runtime.run(100)
    assert seen == [0, 1, 2]


def test_a_paused_process_goes_on_where_it_was():
    seen = []

    def work():
        for _ in range(3):
            TIME.sleep(1)
            seen.append(TIME.monotonic())

    with Runtime(1) as runtime:
        process = runtime.process("p")
        runtime.spawn(process, "t", work)
        runtime.after(1.5, runtime.pause, process)
        runtime.after(10, runtime.resume, process)
        runtime.run(100)
    assert seen == [1.0, 10.0, 11.0]


def test_processes_have_numbers_of_their_own():
    seen = []
    with Runtime(1) as runtime:
        for name in "ab":
            runtime.spawn(runtime.process(name), "t", lambda: seen.append(OS.getpid()))
        runtime.run(1)
    assert sorted(seen) == [1, 2]


def test_nothing_blocks_without_a_simulation():
    lock = THREADING.Lock()
    with lock:
        assert lock.locked()
        with pytest.raises(Deadlock):
            lock.acquire()
    with pytest.raises(Deadlock):
        TIME.sleep(1)


def test_one_simulation_runs_at_a_time():
    with Runtime(1), pytest.raises(RuntimeError), Runtime(2):
        pass


# -- imports -------------------------------------------------------------------------------------------------


def test_named_packages_see_virtual_modules_also_in_default_arguments(tmp_path, monkeypatch):
    source = (
        "import time, threading\nimport concurrent.futures\nimport os.path\nfrom queue import Queue\n"
        "def now(clock=time.monotonic): return clock\n"
    )
    (tmp_path / "simulated.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(imports, "PACKAGES", ("simulated",))
    monkeypatch.setattr(sys, "meta_path", [imports.VirtualFinder(), *sys.meta_path])
    import simulated

    monkeypatch.delitem(sys.modules, "simulated")
    assert simulated.now() is threads.monotonic
    assert simulated.threading.Lock is threads.Lock
    assert simulated.Queue is QUEUE.Queue
    assert simulated.concurrent.futures.Future is FUTURES.Future
    assert simulated.os.path.join("a", "b") == "a/b"


def test_the_product_must_not_be_imported_before(monkeypatch):
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setitem(sys.modules, "scheduler", ModuleType("scheduler"))
    with pytest.raises(RuntimeError, match="was imported before"):
        imports.install()
