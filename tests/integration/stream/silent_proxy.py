"""A TCP proxy that can fall silent or stop to read: connections stay open, and nothing more comes through."""

import contextlib
import socket
import threading


class SilentProxy(contextlib.ExitStack):
    """Forwards connections to a port of this machine.

    Attributes:
        port: Where it listens.
        silent: Whether what either side sends is swallowed.
        flowing: Cleared, nothing more is read from either side, as by a process that is stopped.
    """

    def __init__(self, port):
        super().__init__()
        self._target = port
        self.silent = False
        self.flowing = threading.Event()
        self.flowing.set()
        self._listener = self.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.callback(self._listener.shutdown, socket.SHUT_RDWR)  # closing alone does not end accept
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                for one, another in ((client, server), (server, client)):
                    self.callback(one.close)
                    threading.Thread(target=self._forward, args=(one, another), daemon=True).start()

    def _forward(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.flowing.wait()
                if not self.silent:
                    target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)
