"""Run by nova's own Python: runs the other programs here, each in a fork of this process, which has imported nova once.

Each line of standard input is {"program", "arguments", "input", "timeout"}, as JSON: the name of a program here, its arguments, the
text on its standard input, and seconds after which it is ended. A line of standard output answers: {"status", "output"}.
"""

import importlib
import json
import os
import pathlib
import runpy
import signal
import sys
import tempfile
import traceback

HERE = pathlib.Path(__file__).parent

#: What the programs import of nova, without nova-manage and the services, which register options of their own.
MODULES = (
    "nova.compute.api",
    "nova.compute.rpcapi",
    "nova.conductor.manager",
    "nova.db.migration",
    "nova.network.neutron",
    "nova.objects",
    "nova.pci.request",
    "nova.pci.stats",
    "nova.scheduler.client.report",
    "nova.scheduler.filters.numa_topology_filter",
    "nova.scheduler.filters.pci_passthrough_filter",
    "nova.scheduler.manager",
    "nova.scheduler.request_filter",
    "nova.scheduler.weights.pci",
    "nova.virt.hardware",
)


def run(program, arguments, text, output):
    """Run a program to its end in this process."""
    with tempfile.TemporaryFile("w+") as given:
        given.write(text)
        given.seek(0)
        os.dup2(given.fileno(), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.stdin = open(0)  # noqa: SIM115 - of what was read ahead nothing may be left
    sys.argv = [program, *arguments]
    try:
        runpy.run_path(str(HERE / f"{program}.py"), run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code or 0
    except BaseException:  # noqa: BLE001 - the fork ends here, whatever it is
        traceback.print_exc()
        status = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def answer(question):
    with tempfile.TemporaryFile("w+") as output:
        child = os.fork()
        if child == 0:
            signal.alarm(question["timeout"])
            run(question["program"], question["arguments"], question["input"], output.fileno())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        output.seek(0)
        return {"status": status, "output": output.read()}


def main():
    from nova import monkey_patch

    getattr(monkey_patch, "patch", list)()  # before anything else of nova; older ones do it on import
    for name in MODULES:
        importlib.import_module(name)
    from nova import objects

    objects.register_all()
    for line in sys.stdin:
        sys.stdout.write(json.dumps(answer(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
