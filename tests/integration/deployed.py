"""The same cloud as separate processes: Placement, scheduler, conductors, computes, over a real RabbitMQ."""

import json
import signal
import subprocess
import sys
import time

from conductor_client import journal
from tests.unit.conductor_client.doubles import context
from tools.rig.cloud import Cloud
from tools.rig.fleet import Cell
from tools.rig.service import ROOT, ServiceProcess, environment_of_berth

PATIENCE = 60


def until(condition, complaint, patience=PATIENCE):
    """Wait until a condition holds."""
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.05)


class DeployedCloud(Cloud):
    """A cloud in separate processes; a context manager whose services are up once it is entered.

    rabbit: ``servers.Rabbit``. stub: options for the fake computes, by cell name. conductors false leaves out
    all but the scheduler.
    """

    def __init__(self, directory, rabbit, hosts, cells, stub=None, conductors=True):
        super().__init__(directory)
        self.rabbit = rabbit
        self.transport_url = rabbit.vhost()
        names = [f"cell{number}" for number in range(1, cells + 1)]
        self.make_fleet(hosts, [Cell(name, self.database(name), rabbit.vhost()) for name in names])
        self.processes = []
        self._stub = stub or {}
        self._conductors = conductors

    def _start(self):
        self.placement_url = self.start_placement()
        self.write_databases()
        self.config_file = self.configure(self.transport_url)
        self.bus = self.connect()
        self.callback(self.stop_processes)
        self.start_scheduler()

    def start_scheduler(self):
        """Start the scheduler and, if they are wanted, conductors and computes."""
        self.scheduler = self.run(
            "scheduler.cmd.scheduler", "--config-file", self.config_file, name="scheduler"
        )
        if self._conductors:
            self._start_conductors()
        self.scheduler.wait_for_line("The daemon takes requests")

    def stop_processes(self):
        """Stop all at once; returns their exit statuses."""
        for process in self.processes:
            process.signal(signal.SIGTERM)
        return [(process.log.stem, process.stop()) for process in self.processes]

    def run(self, module, *arguments, name):
        """Start one more process."""
        command = [sys.executable, "-W", "ignore", "-m", module, *arguments]
        process = ServiceProcess(command, self.directory / f"{name}.out", environment_of_berth())
        process.start()
        self.processes.append(process)
        return process

    def _start_conductors(self):
        started = [
            self.run("conductor_client.cmd.stand_ins", "--config-file", self.config_file, name="super")
        ]
        for cell in self.fleet.cells:
            path = self.configure_cell(cell, self.transport_url, **self._stub.get(cell.name, {}))
            started.append(self.run("conductor_client.cmd.stand_ins", "--config-file", path, name=cell.name))
        for process in started:
            process.wait_for_line("is ready")
        self.client = self.bus.client(journal.TOPIC, journal.VERSION)

    def stories(self, uuids):
        """The journal's records of these instances."""
        stories = self.client.call(context(), "list_instances", instance_uuids=uuids)
        return [
            journal.Record(story[0]["instance_uuid"], [journal.Event(**event) for event in story])
            for story in stories
        ]

    def wait_for(self, uuids):
        """Wait until all these instances are built or given up; returns their records."""
        until(
            lambda: sum(one.state in journal.FINAL for one in self.stories(uuids)) == len(uuids),
            "Not finished",
        )
        return self.stories(uuids)


def run_json(command, timeout=100, **options):
    """Run a program that prints JSON on its last line; returns that. ``timeout`` is in seconds."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        cwd=ROOT,
        **options,
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout.splitlines()[-1])
