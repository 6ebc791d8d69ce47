"""The kinds of findings, and what an operator does about each.

A finding names no class or module of ours: its texts are for operators.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """What is wrong. The values are part of the output and do not change."""

    NO_INSTANCE = "allocation-without-instance"
    TWO_HOSTS = "instance-on-two-hosts"
    OTHER_HOST = "allocation-on-other-host"
    NO_HOST = "allocation-without-host"
    ENDED_MIGRATION = "allocation-of-ended-migration"
    NO_ALLOCATION = "instance-without-allocation"
    OVER_COMMITTED = "inventory-over-committed"
    HIDDEN = "hidden-allocation"
    NO_SERVICE = "compute-node-without-service"


DELETE = "openstack resource provider allocation delete"
UNSET = "openstack resource provider allocation unset --provider"
HEAL = "nova-manage placement heal_allocations --instance"

NEXT_STEPS = {
    Kind.NO_INSTANCE: "Run the audit again after ten minutes. If this is still listed, check that no other "
    "service that uses Placement (such as Blazar or Zun) owns this consumer. If none does, free the "
    f"resources: `{DELETE} {{subject}}`",
    Kind.TWO_HOSTS: "Check on which of the hosts the guest runs. If it runs on {home} only, remove the "
    "other: {remove}",
    Kind.OTHER_HOST: "Check on which host the guest runs. If it runs on {home}, let nova write its "
    f"allocations again: `{DELETE} {{subject}}`, then `{HEAL} {{subject}}`",
    Kind.NO_HOST: "If the server failed or is not needed, delete it: `openstack server delete {subject}`. "
    f"If it is to be kept, free the resources: `{DELETE} {{subject}}`",
    Kind.ENDED_MIGRATION: "Check that the guest does not run on {home} any more. If so, free the resources: "
    f"`{DELETE} {{subject}}`",
    Kind.NO_ALLOCATION: f"Let nova write the allocations: `{HEAL} {{subject}}`. If that is refused because "
    "the host is full, move an instance off it first.",
    Kind.OVER_COMMITTED: "Move instances off the host: openstack server migrate. If the ratio or the "
    "reserved amount was changed on purpose, nothing needs to be done: the host gets no new instances until "
    "it has room again.",
    Kind.HIDDEN: "Let Placement create the missing consumer records: `placement-manage db "
    "online_data_migrations`. Then run the audit again; it shows which consumers they are.",
    Kind.NO_SERVICE: "Restart nova-compute on the host, which makes the record again. Only if the host is "
    "gone, delete its row of compute_nodes and its resource provider.",
}

#: For a server that was deleted minutes ago. nova-compute may yet free what it holds, as when it was deleted
#: in a live migration.
WAIT = "Run the audit again after ten minutes: nova-compute may free the resources by then."

#: For an instance whose last migration has ended on a host that its row does not name.
GUEST_ARRIVED = (
    "Check on which host the guest runs. It is probably {arrived}: keep the allocation there, and correct "
    "the host of the instance in nova's database."
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        subject: UUID of the consumer, or of the provider for findings about inventories.
        host: the host or provider where resources are held; several are joined by commas.
        detail: what was found, one or two plain sentences.
        next_step: what to do about it, with commands in backticks.
    """

    kind: Kind
    subject: str
    host: str
    detail: str
    next_step: str


@dataclass(slots=True)
class Report:
    """What an audit found.

    Attributes:
        findings: in the order of their second reads; at most ``limit``.
        left_out: number of findings beyond those.
        counts: what was compared: name -> number.
    """

    findings: list[Finding] = field(default_factory=list)
    left_out: int = 0
    counts: dict[str, int] = field(default_factory=dict)


def finding(kind: Kind, subject: str, host: str, detail: str, step: str = "", **words: str) -> Finding:
    """Return a finding whose next step, by default that of its kind, names the subject and these words."""
    text = step or NEXT_STEPS[kind]
    return Finding(kind, subject, host, detail, text.format(subject=subject, **words))
