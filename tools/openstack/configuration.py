"""The configuration files of the cloud: those in etc/, filled in and put together."""

from pathlib import Path
from string import Template

from tools.openstack.layout import APIS, CELLS, Layout

TEMPLATES = Path(__file__).parent / "etc"
#: Processes of each API; each has as many threads as ``THREADS``.
PROCESSES = {"keystone": 1, "glance": 1, "placement": 2, "neutron": 1, "nova": 2}
THREADS = 16
GUNICORN = """\
wsgi_app = "{application}"
bind = "127.0.0.1:{port}"
workers = {processes}
worker_class = "gthread"
threads = {threads}
timeout = 300
keepalive = 75
backlog = 1024
limit_request_line = 8190  # nova asks Neutron for the ports of a hundred servers
"""
APPLICATIONS = {
    "keystone": "keystone.wsgi.api:application",
    "glance": "glance.wsgi.api:application",
    "placement": "placement.wsgi.api:application",
    "neutron": "neutron.wsgi.api:application",
    "nova": "nova.wsgi.osapi_compute:application",
}


class Configuration:
    """The files of a cloud."""

    def __init__(self, layout: Layout) -> None:
        """Describe the files; ``write`` writes them."""
        self._layout = layout

    def path(self, name: str) -> Path:
        """Return the path of a file by its name, such as ``nova/nova.conf``."""
        return self._layout.directory / "etc" / name

    def write(self) -> None:
        """Write all files, and make the directories that they name."""
        directory = self._layout.directory
        for name in ("glance/images", "glance/staging", "glance/tasks", "neutron", "nova", "logs"):
            (directory / name).mkdir(parents=True, exist_ok=True)
        for name in ("fernet", "credential"):
            (directory / "keystone" / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        self._fill("keystone/keystone.conf", "keystone")
        self._fill("placement/placement.conf", "placement", "authtoken", user="placement")
        self._fill("glance/glance-api.conf", "glance-api", "authtoken", user="glance")
        self._fill("neutron/neutron.conf", "neutron", "authtoken", user="neutron")
        self._write_nova()
        for kind, name in APIS.items():
            self.path(f"{name}/gunicorn.py").write_text(
                GUNICORN.format(
                    application=APPLICATIONS[name],
                    port=self._layout.port(kind),
                    processes=PROCESSES[name],
                    threads=THREADS,
                )
            )

    def _write_nova(self) -> None:
        for cell in ("cell0", *CELLS):
            bus = self._layout.bus("nova" if cell == "cell0" else cell)
            parts = ("nova-common", "nova-api", "authtoken") if cell == "cell0" else ("nova-common",)
            name = "nova/nova.conf" if cell == "cell0" else f"nova/{cell}.conf"
            self._fill(name, *parts, user="nova", cell=cell, bus=bus)
        for name in ("controller-2", "super-conductor", "cell-conductor"):
            self._fill(f"nova/{name}.conf", name)
        for host in self._layout.hosts:
            (self._layout.directory / "nova" / host).mkdir(parents=True, exist_ok=True)
            self._fill(f"nova/{host}/compute.conf", "compute", host=host)
        paste = Path(self._layout.program("x")).parents[1] / "etc" / "nova" / "api-paste.ini"
        self.path("nova/api-paste.ini").write_bytes(paste.read_bytes())

    def _fill(self, name: str, *parts: str, **more: str) -> None:
        layout = self._layout
        values = {
            "directory": layout.directory,
            "software": Path(layout.program("x")).parents[1],
            "database": layout.database("").rstrip("/"),
            "password": layout.password,
            "bus_neutron": layout.bus("neutron"),
            "monitoring": layout.port("monitoring"),
            "monitoring_2": layout.port("monitoring-2"),
            **{kind: layout.url(kind) for kind in APIS},
            **more,
        }
        text = "".join((TEMPLATES / f"{part}.conf").read_text() for part in parts)
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(Template(text).substitute(values))
        path.chmod(0o600)
