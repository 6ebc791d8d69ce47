"""A cloud that moves instances in its own time: nova, Placement and a planner for a run, with faults on request."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace

from scheduler.operators.run.journal import NOTHING, RunMove, Stay
from scheduler.operators.run.nova_api import Action, NotAllowed, Refused, Unanswered
from scheduler.operators.run.one_move import Clocks, RunStep
from scheduler.operators.run.runner import Round

#: Seconds that a move takes, and a confirmation.
MOVE, CONFIRM = 10.0, 4.0

WAYS = {"active": "live", "paused": "live", "stopped": "cold"}


class Crash(BaseException):
    """The process is killed."""


@dataclass(frozen=True)
class Server:
    """A server with the names of openstacksdk."""

    id: str
    compute_host: str
    vm_state: str
    task_state: str | None
    name: str
    project_id: str = "p"
    fault: dict | None = None


@dataclass
class Machine:
    """A host.

    Attributes:
        room: Instances that it takes; those that come count from the begin of their move.
    """

    room: int = 100
    up: bool = True
    enabled: bool = True
    reason: str = ""


@dataclass
class FakeCloud:
    """Hosts and instances.

    Attributes:
        begins: What happens when the move of an instance, or one to a host, is requested: an error to raise, once each.
        ends: How the move of an instance ends in place of success: "no host", "compute error", "broken" (in error on
            the old host), "error" (on the new one), "lost" (on another host), "hangs", "allocations stay",
            "restarted" (the task ends on the old host, its event does not), "late host" (the task ends a minute
            before the host changes).
        at: Functions to call at a time.
        crash: Raise Crash at this call that changes something; "before" it is carried out, or "after".
        forbidden: Names of calls that change something, for which the credentials lack the rights.
    """

    machines: dict = field(default_factory=dict)
    servers: dict = field(default_factory=dict)
    allocations: dict = field(default_factory=dict)
    actions: dict = field(default_factory=dict)
    begins: dict = field(default_factory=dict)
    ends: dict = field(default_factory=dict)
    at: list = field(default_factory=list)
    crash: tuple = ()
    forbidden: tuple = ()
    drained: tuple = ("h1",)
    evacuates: bool = False
    resets: bool = False
    repeats: bool = True
    calls: list = field(default_factory=list)
    now: float = 1000.0
    most_at_once: int = 0
    unavailable_until: float = 0.0
    plans: int = 0
    before_each: object = None
    confirms_after: float = CONFIRM

    def put(self, uuid, host="h1", state="active", task=""):
        for name in ("h1", "h2", "h3"):
            self.machines.setdefault(name, Machine())
        self.servers[uuid] = Server(uuid, host, state, task or None, name=f"name-{uuid}")
        self.allocations[uuid] = {f"node-{host}"}
        return self

    # -- time

    def sleep(self, seconds):
        end = self.now + seconds
        while True:
            due = min((each for each in self.at if each[0] <= end), key=lambda each: each[0], default=None)
            if due is None:
                break
            self.at.remove(due)
            self.now = max(self.now, due[0])
            due[1]()
        self.now = end

    def later(self, seconds, act):
        self.at.append((self.now + seconds, act))

    @property
    def timing(self):
        return Clocks(lambda: self.now, lambda: self.now, self.sleep)

    # -- nova

    def _change(self, name, *arguments, act):
        """Carry out a call that changes something, and perhaps die before or after it."""
        self.calls.append((name, *arguments))
        if name in self.forbidden:
            raise NotAllowed("403 Policy")
        when = self.crash[1] if self.crash and self.crash[0] == len(self.calls) else ""
        if when == "before":
            raise Crash
        act()
        if when == "after":
            raise Crash

    def _available(self):
        if self.before_each is not None:
            self.before_each(self)
        if self.now < self.unavailable_until:
            raise Unanswered("503 no backend")

    def service(self, host):
        self._available()
        one = self.machines.get(host)
        return one and SimpleNamespace(
            id=f"id-{host}", host=host, disabled_reason=one.reason or None,
            status="enabled" if one.enabled else "disabled", state="up" if one.up else "down",
        )  # fmt: skip

    def disable(self, service, reason):
        machine = self.machines[service.host]
        self._change("disable", service.host, act=lambda: vars(machine).update(enabled=False, reason=reason))

    def enable(self, service):
        machine = self.machines[service.host]
        self._change("enable", service.host, act=lambda: vars(machine).update(enabled=True, reason=""))

    def server(self, uuid):
        self._available()
        return self.servers.get(uuid)

    def reset_state(self, uuid):
        self._change("reset", uuid, act=lambda: self._set(uuid, vm_state="error"))

    def move(self, uuid, way, target):
        errors = self.begins.get(uuid) or self.begins.get(target)
        error = errors.pop(0) if errors else None
        if isinstance(error, (Refused, NotAllowed)):
            self.calls.append(("move", uuid, way, target))
            raise error
        self._change("move", uuid, way, target, act=lambda: self.begin(uuid, way, target))
        if error is not None:
            raise error

    def confirm(self, uuid):
        assert self.servers[uuid].vm_state == "resized"

        def done():
            self._set(uuid, vm_state="stopped", task_state=None)
            self.allocations.pop(f"migration-{uuid}", None)

        def begin():
            self.actions[uuid] = Action("confirmResize", self.now)
            self.later(self.confirms_after, done)

        self._change("confirm", uuid, act=begin)

    def latest_action(self, uuid):
        return self.actions.get(uuid)

    def _set(self, uuid, **values):
        if uuid in self.servers:
            self.servers[uuid] = replace(self.servers[uuid], **values)

    def begin(self, uuid, way, target):
        server = self.servers[uuid]
        if server.task_state and way != "evacuate":
            raise Refused(f"409 task state {server.task_state}")
        name = {"live": "live-migration", "cold": "migrate", "evacuate": "evacuate"}[way]
        self.actions[uuid] = Action(name, self.now)
        coming = [
            one
            for one in self.servers.values()
            if one.compute_host == target or one.task_state == f"to {target}"
        ]
        full = len(coming) >= self.machines[target].room
        ends = "no host" if full else self.ends.get(uuid, "")
        self._set(uuid, task_state=f"to {target}")
        self.most_at_once = max(
            self.most_at_once, sum((one.task_state or "").startswith("to ") for one in self.servers.values())
        )
        if ends == "hangs":
            return
        if ends == "no host":
            self.later(1.0, lambda: self._stay(uuid, way, "NoValidHost: No valid host was found"))
            return
        source = self.allocations[uuid]
        self.allocations[uuid] = {f"node-{target}"} | (source if way == "evacuate" else set())
        if way != "evacuate":
            self.allocations[f"migration-{uuid}"] = source
        self.later(MOVE, lambda: self._end(uuid, way, target, ends, source))

    def _stay(self, uuid, way, why):
        self.actions[uuid] = replace(self.actions[uuid], error=why)
        broken = way == "evacuate" or self.ends.get(uuid) == "broken"
        self._set(
            uuid, task_state=None, **({"vm_state": "error", "fault": {"message": why}} if broken else {})
        )

    def _end(self, uuid, way, target, ends, source):
        if ends in {"compute error", "broken"}:
            self.allocations[uuid] = self.allocations.pop(f"migration-{uuid}", source)
            self._stay(uuid, way, "LibvirtError: the guest did not come")
            return
        if ends == "restarted":
            self._set(uuid, task_state=None)
            self.actions[uuid] = replace(self.actions[uuid], goes_on=True)
            return
        if ends == "lost":
            self._set(uuid, compute_host="h9", task_state=None)
            return
        if ends == "error":
            self._set(
                uuid,
                compute_host=target,
                task_state=None,
                vm_state="error",
                fault={"message": "disk is gone"},
            )
            return
        state = {"cold": "resized", "evacuate": "active"}.get(way, self.servers[uuid].vm_state)
        self.actions[uuid] = replace(self.actions[uuid], goes_on=ends == "late host")
        if ends == "late host":
            self._set(uuid, task_state=None, vm_state=state)
            self.later(60.0, lambda: self._end(uuid, way, target, "", source))
            return
        self._set(uuid, compute_host=target, task_state=None, vm_state=state)
        if ends == "allocations stay":
            self.allocations[uuid] = self.allocations[uuid] | source
        if way == "live":
            self.allocations.pop(f"migration-{uuid}", None)

    # -- Placement

    def providers_of(self, instance):
        return self.allocations.get(instance, set())

    def consumers_of(self, nodes):
        return {one for one, held in self.allocations.items() if not held.isdisjoint(nodes)}

    # -- the planner

    def plan(self, done=NOTHING):
        self.plans += 1
        steps, stays, busy = [], [], []
        free = {
            name: one.room - sum(each.compute_host == name for each in self.servers.values())
            for name, one in self.machines.items()
            if one.up and name not in self.drained
        }
        for server in sorted(self.servers.values(), key=lambda one: one.id):
            if server.compute_host not in self.drained:
                continue
            way = "evacuate" if self.evacuates else WAYS.get(server.vm_state, "")
            reset = self.evacuates and server.vm_state == "paused"
            target = max(
                free, key=lambda name: (free[name] > 0, name != done.refused.get(server.id), free[name], name)
            )
            if (
                not way
                or (server.task_state and not self.evacuates)
                or (reset and not self.resets)
                or free[target] < 1
            ):
                why = "no room" if way else f"nova moves no instance that is {server.vm_state}"
                stays.append(Stay(server.id, server.compute_host, server.vm_state, why))
                if server.task_state or server.vm_state == "building":
                    busy.append(server.id)
                continue
            free[target] -= 1
            move = RunMove(instance=server.id, source=server.compute_host, to=target, way=way)
            steps.append(RunStep(move, server.vm_state, reset))
        machines = {name: [f"node-{name}"] for name in self.machines}
        return Round(list(self.drained), steps, stays, busy, machines)


@dataclass
class Lines:
    """What a run shows."""

    lines: list = field(default_factory=list)
    counts: list = field(default_factory=list)

    def line(self, text):
        self.lines.append(text)

    def progress(self, done, total):
        self.counts.append((done, total))
