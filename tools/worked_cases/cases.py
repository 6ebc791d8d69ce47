"""The worked cases of the documentation: builds that fail, and what berth-explain says of them.

Each case changes the cloud, asks a real scheduler for a host as a conductor does, and takes the change back.
The commands are run afterwards: a decision is explained with the values that it saw.
"""

from collections.abc import Callable, Iterator, Sequence
import contextlib
from dataclasses import dataclass
from pathlib import Path
import re
import uuid

from tools.rig.faulty_proxy import after_doing
from tools.rig.fleet import DISABLED, Host
from tools.rig.rows import set_service
from tools.rig.servers import Rabbit
from tools.worked_cases.cloud import CasesCloud

#: The width of tables.
WIDTH = 118

#: What differs from run to run, and what is left of it in a comparison.
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d(T[\d:.]+\+00:00| [\d:]+ UTC)"), "TIME"),
    (re.compile(r"(?<=Berth )\d[\w.+]*"), "VERSION"),
    (re.compile(r"\b\d+ ms"), "N ms"),
    # Equal hosts are in the order of Placement's answer
    (re.compile(r"\bcmp-\d{5}\b"), "HOST-NAME"),
    (re.compile(r"\bcell[12]\b"), "CELLN"),
    (re.compile(r"\b\d{6} MiB in"), "N MiB in"),
    (re.compile(r"^Request req-[-0-9a-f]+: build of [-0-9a-f]+$", re.MULTILINE), "Request ID: build of UUID"),
    (re.compile(r"\breq-[-0-9a-f]{36}\b"), "ID"),
    # A dry run draws them
    (re.compile(r"(?<=^  instances )[-0-9a-f, ]{36,}", re.MULTILINE), "UUIDS"),
)

Change = Callable[[CasesCloud], contextlib.AbstractContextManager[object]]


@dataclass(frozen=True)
class Case:
    """One case, which names its file: a flavor and a zone, and in ``change`` what makes their build fail.

    Attributes:
        questions: The commands that explain it; INSTANCE stands for the instance.
        during: Whether the commands are run before the change is taken back.
    """

    name: str
    flavor: str
    zone: str | None
    change: Change = contextlib.nullcontext
    questions: tuple[str, ...] = ("decision INSTANCE",)
    during: bool = False
    page: str = "when-no-host-is-found.rst"

    @property
    def instance_uuid(self) -> str:
        """The UUID of the instance."""
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"instance {self.name}"))

    def boot(self, cloud: CasesCloud) -> None:
        """Let the build fail."""
        cloud.boot(self.request_id, self.instance_uuid, self.flavor, self.zone)

    @property
    def commands(self) -> list[str]:
        """The commands, about this instance."""
        return [question.replace("INSTANCE", self.instance_uuid) for question in self.questions]

    @property
    def request_id(self) -> str:
        """The id of the request."""
        return f"req-{uuid.uuid5(uuid.NAMESPACE_DNS, f'request {self.name}')}"


@contextlib.contextmanager
def never_chosen(cloud: CasesCloud) -> Iterator[None]:
    """Of az1 one host is disabled, and the others are full; a build there has failed."""
    first, *others = cloud.of_zone("az1")
    taken = [cloud.admin.fill(host.uuid) for host in others]
    with _disabled(cloud, [first]):
        failed = Case("never-chosen-az1", "m1.medium", "az1")
        failed.boot(cloud)
        yield
        for consumer in taken:
            cloud.admin.release(consumer)


@contextlib.contextmanager
def disabled_hosts(cloud: CasesCloud) -> Iterator[None]:
    """The hosts of az1 are disabled, which the mirror knows."""
    with _disabled(cloud, cloud.of_zone("az1")):
        cloud.refresh_mirror()
        yield


@contextlib.contextmanager
def _disabled(cloud: CasesCloud, hosts: Sequence[Host]) -> Iterator[None]:
    """Hosts are disabled, which their computes also tell Placement."""
    for host in hosts:
        set_service(cloud, host, disabled=True, disabled_reason="kernel update")
    with cloud.admin.trait_on(DISABLED, [host.uuid for host in hosts]):
        yield
    cloud.refresh_mirror()
    for host in hosts:
        set_service(cloud, host, disabled=False, disabled_reason=None)


@contextlib.contextmanager
def lost_claims(cloud: CasesCloud) -> Iterator[None]:
    """Between Placement's answer and the first claim, other schedulers fill the hosts of az2."""
    taken: list[str] = []

    def fill() -> None:
        taken.extend(cloud.admin.fill(host.uuid) for host in cloud.of_zone("az2"))

    for method in ("PUT", "POST"):
        cloud.proxy.on(method, "/allocations", after_doing(fill))
    yield
    cloud.proxy.clear_faults()
    for consumer in taken:
        cloud.admin.release(consumer)
    cloud.refresh_mirror()


@contextlib.contextmanager
def cell_away(cloud: CasesCloud) -> Iterator[None]:
    """The only hosts with a GPU are in a cell whose database cannot be opened."""
    path = cloud.directory / "cell2.sqlite"
    aside = path.with_suffix(".aside")
    others = [host.uuid for host in cloud.of_zone("az2") if host.number % 2]
    with cloud.admin.trait_on("CUSTOM_GPU", others):
        cloud.refresh_mirror()
        path.rename(aside)
        path.mkdir()
        try:
            cloud.notice_lost_cell("cell2")
            yield
        finally:
            path.rmdir()
            aside.rename(path)


CASES = (
    Case(
        "never-chosen",
        "m1.vgpu",
        None,
        never_chosen,
        tuple(f"host {name}" for name in ("cmp-00000", "cmp-00001", "cmp-00002")),
        during=True,
        page="explain.rst",
    ),
    Case("disabled-hosts", "m1.large", "az1", disabled_hosts),
    Case("missing-trait", "m1.gpu", None),
    Case("max-unit", "m1.huge", "az1"),
    Case(
        "aggregate-isolation",
        "m1.large",
        "az3",
        questions=("decision INSTANCE --hosts 2", "host cmp-00004 --decision INSTANCE"),
    ),
    Case("numa", "m1.wide", "az2", questions=("decision INSTANCE", "dry-run --flavor m1.wide-2 --az az2")),
    Case("lost-claims", "m1.large", "az2", lost_claims),
    Case("cell-away", "m1.gpu", "az2", cell_away),
)


def normalised(text: str) -> str:
    """Return what a case tells, without what differs from run to run."""
    for pattern, word in VARYING:
        text = pattern.sub(word, text)
    return text


def run(directory: Path, rabbit: Rabbit | None = None) -> dict[str, str]:
    """Make the builds of all cases fail in a cloud, and return what is told of each by its name.

    Args:
        rabbit: A RabbitMQ that runs already.
    """
    found = {}
    with CasesCloud(directory, rabbit) as cloud:
        for case in CASES:
            with case.change(cloud):
                case.boot(cloud)
                if case.during:
                    found |= _told(cloud, [case])
        return found | _told(cloud, [case for case in CASES if not case.during])


def program(command: str) -> str:
    """Return the program that answers a question."""
    return "berth-plan" if command.startswith("dry-run") else "berth-explain"


def _told(cloud: CasesCloud, cases: Sequence[Case]) -> dict[str, str]:
    asked = [(case.name, command) for case in cases for command in case.commands]
    printed = cloud.explain([f"{program(command)} {command} --max-width {WIDTH}" for _, command in asked])
    found: dict[str, list[str]] = {case.name: [] for case in cases}
    for (name, command), output in zip(asked, printed, strict=True):
        found[name].append(f"$ {program(command)} {command}\n{output}")
    return {name: "\n".join(parts) for name, parts in found.items()}
