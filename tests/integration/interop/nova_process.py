"""A process of nova's own Python that runs the programs here; see ``nova_server``."""

import json
import os
import pathlib
import subprocess
import tempfile
import threading

#: The environment in which nova's Python is run.
ENVIRONMENT = {**os.environ, "OS_NOVA_DISABLE_EVENTLET_PATCHING": "1", "PYTHONWARNINGS": "ignore"}
ENVIRONMENT["PYTHONHASHSEED"] = "0"  # so that its answers do not depend on the order of sets

SERVER = pathlib.Path(__file__).with_name("nova_server.py")


class NovaProcess:
    """Asks one program after the other; a context manager.

    Attributes:
        python: The Python of an installed nova.
        empty: A directory where databases with empty tables are kept for all clouds.
    """

    def __init__(self, python):
        self.python = pathlib.Path(python)
        self._directory = tempfile.TemporaryDirectory(prefix="berth-nova-")
        self.empty = self._directory.name
        self._one_by_one = threading.Lock()
        self._process = subprocess.Popen(
            [python, SERVER], env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with self._directory, self._process:
            self._process.kill()

    def run(self, program, *arguments, given=None, timeout=300):
        """Run a program with ``given`` as JSON on its standard input; returns the JSON of its last line.

        ``timeout`` is in seconds and ends what hangs.
        """
        question = {
            "program": program,
            "arguments": list(map(str, arguments)),
            "input": json.dumps(given),
            "timeout": timeout,
        }
        with self._one_by_one:
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        assert answer["status"] == 0, f"{program} ended with {answer['status']}:\n{answer['output']}"
        return json.loads(answer["output"].splitlines()[-1])
